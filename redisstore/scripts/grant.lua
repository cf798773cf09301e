-- Handles the claims of one process. KEYS: the states' keys. ARGV[1]: the identity of the process.
-- ARGV[2]: a list for each key. It has the limit's numbers, and the request: its cost, or the
-- cost of a peek, its floor, 0, '', and boundaries of the calendar. Then come the cost again, 0
-- for a peek, the sequence number, birth, till, the units spent and returned, the units wanted
-- and the least of them, demand, life, the most units in escrow, and the overdraft. Replies with
-- the server's time. For each claim it replies with an error's text, or with a list: 0 (1 a
-- repeated claim, 2 a stale one), whether the request passes, the view, the time of the answer,
-- the units granted, the units held, birth, till, free units, the escrow, how many holders share
-- it, the sum of their demands, and 1 if other processes take units too.
local REPEATED, STALE = 1, 2
local PASSED, ACTIVE = 1, 2
local WINDOW = 4 -- the kind of fixed windows
local holder, hold = ARGV[1], escrow(foreign)
local size = hold.size
local writes = {}

-- find returns where the entry of this process begins, nil if there is none.
local function find(holders)
  local i = 1
  while true do
    i = string.find(holders, holder, i, true)
    if not i or i % size == 1 then
      return i
    end
    i = i + 1
  end
end

-- share returns the units to grant at most by all but the wish.
local function share(held, own, has, least, avail, cap, weight)
  local all = 2 * held.demand
  local part = avail > 0 and max(least, (muldiv(avail, own, all))) or 0
  return min(floor(cap / held.active) - has, part, avail, cap - weight)
end

-- others returns 1 if exact requests of other processes have taken units lately.
local function others(held)
  return string.sub(held.holders, 1, 8) == hold.others and 1 or 0
end

local function handle(key, given)
  local p, q, take, seq, birth, till, spent, returned, want, least, demand, life, cap, overdraft = unpack(given)
  local kind = kinds[p[1]]
  local s, held = hold.open(kind, loaded(p, key) or kind.fresh(p), p, now, q)
  local t = under(kind, s, p, now)

  local i, code = find(held.holders), 0
  local own_seq, own_birth, has, ends, known, wanted, flags, at, granted, of = 0, 0, 0, 0, 0, 0, 0, now, 0, 0
  local _
  if i then
    _, own_seq, own_birth, has, ends, known, wanted, flags, at, granted, of = struct.unpack(hold.holder, held.holders, i)
    if has > held.units or wanted > held.demand or max(own_birth, ends, at, granted, of) > exact then
      foreign()
    elseif own_seq == seq then
      code = REPEATED
    elseif own_seq > seq then
      code, granted = STALE, 0
    end
  end
  if code > 0 then
    local passed = code == REPEATED and flags % 2 == PASSED and take > 0
    if passed then
      q = { 0, unpack(q, 2) }
    end
    local weight = hold.weight(held, p)
    local _, text = hold.seen(kind, s, t, q, now, max(0, weight - overdraft))
    return { code, passed and 1 or 0, text, at, granted, has, own_birth, ends,
      hold.room(kind, t, now, q) - weight, held.units, held.active, held.demand, others(held) }
  end

  -- What the process says of the grant in hand. The sums are then without its entry.
  held.units, held.demand = held.units - has, held.demand - wanted
  if flags >= ACTIVE then
    held.active = held.active - 1
  end
  -- What has expired is booked. An old claim that came again may have made another grant.
  local booked, over = 0, birth > 0 and till <= now
  local same = i and own_birth == birth and birth > 0 and not over
  if has > 0 and not same then
    booked, has = has, 0
  end
  if not over then
    booked = booked + spent
  end
  if same then
    has = has - min(spent, has)
    has = has - min(returned, has)
  end
  if has == 0 then
    own_birth = 0
  end
  held.units = held.units + has
  of = has > 0 and min(of, hold.capacity(p)) or hold.capacity(p)
  local weight, larger = hold.weight(held, p, i)
  -- Booking is not deciding: only what this process gets is decided under its own numbers.
  local changed = booked > 0
  if changed then
    s = hold.booked(kind, s, p, booked, now, q)
    t = under(kind, s, p, now)
  end

  local reserved, passed, text = max(0, weight - overdraft), false, nil
  if take == 0 then
    _, text = hold.seen(kind, s, t, q, now, reserved)
  else
    local after
    passed, after, text = hold.decide(kind, s, t, q, now, reserved)
    local new = hold.admitted(kind, s, t, q, now, passed, after, larger)
    if new then
      s, t, changed = new, under(kind, new, p, now), true
    end
  end

  local room = hold.room(kind, t, now, q)
  local enters = i or #held.holders < hold.most * size
  -- The process spends what it has until the end that an earlier answer promised, whatever the clock
  -- has done since then.
  local promised = has > 0 and ends or 0
  known = i and hold.forgotten(at, known, ends, now) or 0
  granted, ends = 0, now + life
  if enters then
    local last, open, is_open
    if p[1] == WINDOW then
      last, open, is_open = hold.window(kind, t, now, q)
    end
    local own = max(1, min(demand, 1e12))
    if want > 0 then
      held.demand, held.active = held.demand + own, held.active + 1
      least = max(1, least)
      granted = min(want, share(held, own, has, least, room - weight + overdraft - q[2], cap, weight))
      if granted < least then
        granted = 0
      end
    end
    if granted > 0 then
      s, changed = hold.keeps(s, p, q, larger) and s or open or t, true
      if own_birth == 0 then
        own_birth = seq
      end
      has, held.units, weight = has + granted, held.units + granted, weight + granted
    end
    if last and (is_open or granted > 0) then
      ends = min(ends, last)
    end
    ends = max(ends, promised)
    life = max(ends, known) - now -- earlier answers have named later ends: see escrow.lua
    local active = want > 0 or has > 0
    if active and want == 0 then
      held.demand, held.active = held.demand + own, held.active + 1
    end
    flags = (passed and PASSED or 0) + (active and ACTIVE or 0)
    local entry = struct.pack(hold.holder, holder, seq, own_birth, has, ends, life, active and own or 0, flags, now, granted, of)
    if i then
      held.holders = string.sub(held.holders, 1, i - 1) .. entry .. string.sub(held.holders, i + size)
    else
      held.holders = held.holders .. entry
    end
    held.first, held.last = min(held.first, ends), max(held.last, now + life)
    held.most = has > 0 and max(held.most, of) or held.most
  else
    ends = 0
  end
  if enters or changed then
    writes[#writes + 1] = { kind, key, s, held }
  end
  return { 0, passed and 1 or 0, text, now, granted, has, own_birth, ends,
    room - weight, held.units, held.active, held.demand, others(held) }
end

local answers = {}
for i, given in ipairs(cmsgpack.unpack(ARGV[2])) do
  local done, answer = pcall(handle, KEYS[i], given)
  if not done then
    if type(answer) == 'table' then
      answer = answer.err
    end
    if string.find(answer, 'sluice-outside', 1, true) then
      error(answer, 0)
    end
  end
  answers[i] = answer
end
for _, w in ipairs(writes) do
  local kind, key, s, held = unpack(w)
  save(kind, key, s, now, held)
end
return cmsgpack.pack(now, answers)
