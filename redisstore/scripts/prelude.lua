-- The beginning of every script. A script is composed of texts: the time, the prelude,
-- the fragments that its kinds need, one or more kinds, and a main. The mains are
-- decide, batch and finish. All data comes in ARGV; a script touches no key but KEYS.
-- Numbers are integers of at most 2^53 in magnitude, which doubles hold exactly. They
-- travel as msgpack, never through tostring.
--
-- kinds holds each algorithm under its number, with the functions below. They compute
-- what package algo computes, to the last bit.
--
--   s  a state: a table that nobody changes after it was returned. s.p are the numbers
--      of the limit that it is kept under, the kind first. s.raw is its text as the
--      server has it, '' for a fresh state, nil for a state that was computed.
--   q  a request: cost, floor, wait, member, and boundaries of the calendar. A debit has the
--      member DEBIT, and an overdraw the member OVERDRAW
--   c  a charge: cost, floor, at, whole units and fraction of over, member, boundaries
--
--   fresh(p)                      the state of a key that was never used
--   convert(s, p, now)            the state under other numbers. moves says whether a denial
--                                 is kept under them too; usually it leaves s as it is
--   decide(s, q, now)             whether q passes, and the state after; s if unchanged
--   settle(s, c, actual, now)     the state with another cost
--   cancel(s, c, now)             the state with a charge given back; without it, undo
--                                 while the charge's moment has not passed
--   undo(s, c, now)               the state as if c had never been; without it, settle at 0
--   charge(c, from, to, now)      a charge in the terms of other numbers; may be absent
--   release(s, c, latency, now)   whether there was such a lease, and the state without it
--
-- Kinds that are kept as a string have:
--
--   parse(...)    the state, from the values in its text
--   value(s)      the text of a state: msgpack, its first value the kind
--   left(s, now)  the microseconds until s may be deleted; 0 or less: now
--   isfresh(s, now)  as below; without it, left(s, now) <= 0
--
-- Kinds that are kept as a sorted set have:
--
--   load(key)           the state at a key, nil if there is none
--   save(key, s, now)   writes the state with its time to live, or deletes a fresh one
--   view(t, q, now, s)  the text that package redisstore computes the decision from: t is
--                       s, which is kept, under the numbers of the request
--   isfresh(s, now)     whether s equals a fresh state
--
-- Processes may hold units of a key. What they hold is kept with its state. A script parts it
-- from the state that it loads: s.escrow is its text. Mains decide beside it, and save writes it
-- again: see escrow.lua.
local kinds = {}
local escrow -- nil if the script has no kind that can be granted: then such a text is foreign
local floor, max, min = math.floor, math.max, math.min

-- A debit takes its cost whatever is left. Package redisstore writes this in place of a member.
local DEBIT = 'D'

-- An overdraw takes its whole cost if one unit is left.
local OVERDRAW = 'O'

-- Integers beyond this are not exact.
local exact = 9007199254740992

-- px returns the time to live, in milliseconds, of a state that may be deleted after so
-- many microseconds. The server counts from the millisecond in which the script began,
-- and may have been held up before the script read the time. 20 more milliseconds still
-- keep every state long enough.
local function px(micros, now)
  return floor((micros + now % 1000 + 999) / 1000) + 20
end

-- differs reports whether two lists of numbers differ.
local function differs(a, b)
  for i = 1, max(#a, #b) do
    if a[i] ~= b[i] then
      return true
    end
  end
  return false
end

-- Each algorithm has keys of its own. If another program has written to one of them, or the
-- key cannot be read, the script ends with an error before it writes. A state that cannot be
-- read is not a missing state.

-- foreign ends the script because of what a key holds.
local function foreign()
  error({ err = 'WRONGTYPE the key holds something else than the state of a limit' })
end

-- parsed returns the state that a string holds, nil if there is no string.
local function parsed(p, raw)
  if not raw then
    return nil
  elseif string.byte(raw) ~= p[1] then
    foreign()
  end
  local s = kinds[p[1]].parse(cmsgpack.unpack(raw))
  local numbers = s.p
  if numbers[1] ~= p[1] then -- they begin with the kind too
    foreign()
  end
  local n = #p + 1
  if numbers[n] then
    if type(numbers[n]) ~= 'string' then
      foreign()
    end
    s.escrow, numbers[n] = numbers[n], nil
  else
    s.raw = raw
  end
  return s
end

-- loaded returns the state at a key, nil if there is none.
local function loaded(p, key)
  if kinds[p[1]].load then
    return kinds[p[1]].load(key)
  end
  return parsed(p, redis.call('GET', key))
end

-- under returns the state s under the numbers p, and whether s was kept under others.
local function under(kind, s, p, now)
  if differs(s.p, p) then
    return kind.convert(s, p, now), true
  end
  return s, false
end

-- view returns the text that package redisstore computes the decision from. t is the state
-- s under the numbers of the request. A text has its own numbers.
local function view(kind, s, t, q, now)
  if kind.view then
    return kind.view(t, q, now, s)
  end
  return s.raw or kind.value(s)
end

-- is_fresh reports whether a state equals a fresh one.
local function is_fresh(kind, s, now)
  if kind.isfresh then
    return kind.isfresh(s, now)
  end
  return kind.left(s, now) <= 0
end

-- written returns what a decision about t changes the kept state s to, nil if it does not. t is s
-- under the numbers of the request. booked says that a debit was denied, and s is kept under other
-- numbers. Then s is charged as it is: converted, its units would go with the windows of t.
local function written(kind, s, t, q, now, allowed, after)
  local cost = q[1]
  if s == t then
    return after ~= s and after or nil
  elseif cost == 0 then
    return nil
  elseif allowed or t.moves then
    return after
  elseif q[4] ~= DEBIT then
    return nil
  elseif is_fresh(kind, s, now) then
    return after
  end
  local _, booked = kind.decide(s, { cost, 0, 0, DEBIT }, now)
  return booked, true
end

-- passes_undebited reports whether a debit would pass as a plain request, once it was booked. A log drops what decides
-- nothing under its own numbers. Then the denial is the one before the debit.
local function passes_undebited(kind, t, q, now)
  return (kind.decide(t, { q[1], q[2], q[3], '', unpack(q, 5) }, now))
end

-- carried returns what other numbers have left of some units, as algo's carry: count of them
-- come back at first, and count more after each step.
local function carried(units, count, first, step, now)
  if now < first then
    return units
  end
  return max(0, units - (floor((now - first) / step) + 1) * count)
end

-- need returns how many of count units must be left for q, as algo's Request.need. A state counts most units.
local function need(q, count, most)
  local cost = q[1]
  if q[4] == OVERDRAW and cost <= max(count, most - count) then
    return min(cost, 1)
  end
  return cost
end

-- admits reports whether a window of count units, of which some are used, admits q, and
-- whether it counts q. A debit counts in any case. A state counts most units.
local function admits(q, count, used, counts_denied, most)
  local least, room = need(q, count, most), count - q[2]
  if least == 0 then
    return used <= count, false
  end
  local allowed = least <= room - used
  return allowed, allowed or q[4] == DEBIT or counts_denied == 1 and least <= room
end

-- save writes a state with its time to live, or deletes it. With held, the processes that hold
-- units of the key, these are written too.
local function save(kind, key, s, now, held)
  if kind.save then
    kind.save(key, s, now, held)
    return
  end
  local left = held and held.hold.left(kind, s, held, now) or kind.left(s, now)
  if left <= 0 then
    redis.call('DEL', key)
    return
  end
  local value, ms = kind.value(s), px(left, now)
  if held then
    value = held.hold.appended(value, held, now)
  end
  redis.call('SET', key, value, 'PX', ms)
end
