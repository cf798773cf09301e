-- Holds give charges back that nobody settles in time. The holds of a key are a sorted set in its slot: each member is scored
-- by the end of a hold, and has its identity, and msgpack(cost, time of the charge). Scripts that get no key of holds do
-- nothing of this.

-- What one call gives back at most.
local DUE = 1000

-- settle_at settles a charge at a key, as finish.lua does: c may end with the boundaries of a calendar.
local function settle_at(kind, p, key, c, actual)
  local s, held = loaded(p, key), nil
  if s == nil then
    return
  elseif s.escrow then
    s, held = (escrow or foreign)(foreign).open(kind, s, p, now, { 0, 0, 0, '', unpack(c, 7) })
  end
  local after = kind.settle(s, c, actual, now)
  if after ~= s then
    save(kind, key, after, now, held)
  end
end

-- give_back_due gives back what the holds of a key took that have ended. A hold is forgotten together with its charge, so that
-- a script that ends early, such as for another calendar, repeats nothing. bounds are of the calendar, if any.
local function give_back_due(kind, p, key, holds, q)
  local due = redis.call('ZRANGEBYSCORE', holds, '-inf', now, 'LIMIT', 0, DUE)
  for _, member in ipairs(due) do
    local cost, at = cmsgpack.unpack(string.sub(member, 9))
    settle_at(kind, p, key, { cost, 0, at, 0, 0, '', unpack(q, 5) }, 0)
    redis.call('ZREM', holds, member)
  end
  return due[1] ~= nil
end

-- keep_hold adds a hold. The set lasts until the last hold has ended, and as long as its key may count a charge: left says
-- for how long, in microseconds.
local function keep_hold(key, id, cost, length, left)
  redis.call('ZADD', key, now + length, id .. cmsgpack.pack(cost, now))
  local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  local ms = px(max(tonumber(last[2]) - now, left), now)
  redis.call('PEXPIRE', key, ms)
end
