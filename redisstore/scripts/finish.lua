-- Ends a reservation or a lease. KEYS: the state's key. ARGV: the numbers of the charge's
-- limit; the charge; how it ends, and the last moment to cancel it, the actual cost or the
-- latency. For a charge with a hold, KEYS[2] has the holds, and ARGV[4] is the hold's identity. Replies with the server's time, and whether the charge could still be ended so.
local CANCEL, SETTLE, UNDO = 1, 2, 4 -- 3: release
local key, p, c = KEYS[1], { cmsgpack.unpack(ARGV[1]) }, { cmsgpack.unpack(ARGV[2]) }
local how, number = cmsgpack.unpack(ARGV[3])
local kind = kinds[p[1]]

local holds, member, ends = KEYS[2], nil, nil
if holds then
  member = ARGV[4] .. cmsgpack.pack(c[1], c[3])
  ends = tonumber(redis.call('ZSCORE', holds, member) or nil)
  if ends and ends <= now and how == SETTLE then
    settle_at(kind, p, key, c, 0)
    redis.call('ZREM', holds, member)
    ends = nil
  end
  if not ends then -- its cost is not charged any more
    c = { 0, c[2], now, 0, 0, '', unpack(c, 7) }
  end
end

local s, held = loaded(p, key), nil
if s ~= nil and s.escrow then
  s, held = (escrow or foreign)(foreign).open(kind, s, p, now, { 0, 0, 0, '', unpack(c, 7) })
end
if s == nil then
  s = kind.fresh(p)
elseif differs(s.p, p) then
  if is_fresh(kind, s, now) then
    s = kind.convert(s, p, now)
  elseif kind.charge then
    c = kind.charge(c, p, s.p, now)
  end
end

-- undo gives back a charge that nobody has acted upon.
local function undo()
  if c[1] == 0 then
    return s
  elseif kind.undo then
    return kind.undo(s, c, now)
  end
  return kind.settle(s, c, 0, now)
end

local found, after = true, s
if holds and how == UNDO and not ends then
  how = 0
end
if how == CANCEL and now > number then
  found = false -- the charge has acted
elseif how == CANCEL and kind.cancel then
  after = kind.cancel(s, c, now)
elseif how == CANCEL or how == UNDO then
  after = undo()
elseif how == SETTLE then
  after = kind.settle(s, c, number, now)
elseif how ~= 0 then
  found, after = kind.release(s, c, number, now)
end
if ends then
  redis.call('ZREM', holds, member)
end
if after ~= s then
  save(kind, key, after, now, held)
end
return cmsgpack.pack(now, found and 1 or 0)
