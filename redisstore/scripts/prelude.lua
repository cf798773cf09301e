-- What all scripts stand on. A script is composed of texts: this one, one or more
-- kinds, and a main (decide, batch, finish). All data comes in ARGV; KEYS are all
-- that is touched. Numbers are integers of at most 2^53 in magnitude, exact in Lua's
-- doubles; they travel as msgpack, never through tostring.
--
-- kinds holds an algorithm under its number. A state s is a table that is not
-- changed once it has been returned; s.p are the numbers of the limit it is kept
-- under. q is a request: cost, floor, wait, member, and bounds of the calendar;
-- c is a charge: cost, floor, at, whole units and fraction of over, member, bounds.
--
--   fresh(p)             the state of a key that was never seen
--   load(key, raw, now)  the state kept at key; nil if there is none. raw is the string
--                        at key, false if there is none
--   sorted               whether it is kept as a sorted set; else as a string
--   convert(s, p, now)   the state under other numbers; restamped if what was used before
--                        is taken for used now, which a denial does not write
--   decide(s, q, now)    whether q passes, and the state after; s itself if it stays
--   view(s, q, now)      the text that answers are computed from
--   save(key, s, now)    write the state with its time to live, or delete a fresh one
--   isfresh(s, now)      whether s equals a fresh one
--   charge(c, from, to, now)      a charge in the terms of other numbers; may be absent
--   cancel(s, c, now)             the state with a charge given back
--   settle(s, c, actual, now)     the state with another cost
--   undo(s, c, now)               the state as if c had never been; settled at 0 without
--   release(s, c, latency, now)   whether there was such a lease, and the state without
--
-- They compute what package algo does, to the last bit.
local kinds = {}
local floor, max, min = math.floor, math.max, math.min

-- No integer beyond is exact.
local exact = 9007199254740992

-- split cuts a number into two halves of 26 bits (Veltkamp).
local function split(a)
  local t = 134217729 * a
  local high = t - (t - a)
  return high, a - high
end

-- product returns a*b as the sum of two numbers, exactly (Dekker).
local function product(a, b)
  local p = a * b
  local ah, al = split(a)
  local bh, bl = split(b)
  return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl
end

-- muldiv returns a*b/c rounded down, and the remainder, exactly; a quotient of
-- 2^53 or more is 2^53.
local function muldiv(a, b, c)
  local p = a * b
  if p < exact then
    local q = floor(p / c)
    return q, p - q * c
  end
  if p / c >= exact + 4 then -- nearer ones may have been rounded up
    return exact, 0
  end
  local high, low = product(a, b)
  local q = min(floor(high / c), exact)
  local qh, ql = product(q, c)
  local r = (high - qh) + (low - ql)
  while r < 0 do
    q, r = q - 1, r + c
  end
  while r >= c do
    q, r = q + 1, r - c
  end
  if q >= exact then
    return exact, 0
  end
  return q, r
end

-- less reports whether a*b < c*d.
local function less(a, b, c, d)
  local h1, l1 = product(a, b)
  local h2, l2 = product(c, d)
  return h1 < h2 or h1 == h2 and l1 < l2
end

-- What is counted in ticks is split by the limit's den: whole units u and f/den of
-- one. p[2] and p[3] of the limits that do so are num and den: one unit is den ticks,
-- and one microsecond refills num.

-- beyond reports whether u and f are more than gu and gf.
local function beyond(u, f, gu, gf)
  return u > gu or u == gu and f > gf
end

-- plus adds gu and gf to u and f.
local function plus(den, u, f, gu, gf)
  u, f = u + gu, f + gf
  if f >= den then
    return u + 1, f - den
  end
  return u, f
end

-- minus takes gu and gf from u and f; less than nothing is a negative u.
local function minus(den, u, f, gu, gf)
  u, f = u - gu, f - gf
  if f < 0 then
    return u - 1, f + den
  end
  return u, f
end

-- decay returns what is left of u and f after so many microseconds.
local function decay(p, u, f, passed)
  if u == 0 and f == 0 or passed == 0 then
    return u, f
  end
  u, f = minus(p[3], u, f, muldiv(passed, p[2], p[3]))
  if u < 0 then
    return 0, 0
  end
  return u, f
end

-- within reports whether u and f are refilled in so many microseconds; what is not
-- positive, always.
local function within(p, u, f, micros)
  if u < 0 or u == 0 and f == 0 then
    return true
  end
  return micros > 0 and not beyond(u, f, muldiv(micros, p[2], p[3]))
end

-- scaled returns u and f under another den, rounded up, but 2^62 ticks at most.
local function scaled(u, f, from, den)
  local rest
  f, rest = muldiv(f, den, from)
  if rest > 0 then
    f = f + 1
  end
  u, f = plus(den, u, f, 0, 0)
  local mu, mf = muldiv(2147483648, 2147483648, den)
  if beyond(u, f, mu, mf) then
    return mu, mf
  end
  return u, f
end

-- filled returns the microseconds that it takes to refill u and f, or one or two more.
local function filled(p, u, f)
  return min(floor((u * p[3] + f) / p[2]) + 2, 1e15)
end

-- px returns the time to live, in milliseconds, of a state that equals a fresh one
-- after so many microseconds. The server counts it from the millisecond in which the
-- script began, and may have been held up between that and its reading the time: 20
-- milliseconds more let no state be forgotten early for it.
local function px(micros, now)
  return floor((micros + now % 1000 + 999) / 1000) + 20
end

-- differs reports whether two limits have other numbers.
local function differs(a, b)
  for i = 1, max(#a, #b) do
    if a[i] ~= b[i] then
      return true
    end
  end
  return false
end

-- Each algorithm has keys of its own. Still, another program may have written there: then
-- there is no state, and the key starts anew, for an error would leave it without a limit.

-- foreign takes in an error reply to a reading command: the key holds what is no state.
-- Any other error, such as a missing permission, ends the script: a state that cannot be
-- read must not be taken for none. Nothing has been written before.
local function foreign(reply)
  if string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then
    error(reply.err, 0)
  end
end

-- loaded returns the state kept at a key, nil if there is none.
local function loaded(kind, key, now)
  local raw = false
  if not kind.sorted then
    raw = redis.pcall('GET', key)
    if type(raw) == 'table' then
      foreign(raw)
      raw = false
    end
  end
  return kind.load(key, raw, now)
end

-- outside ends the script: the calendar's bounds do not hold the server's time.
-- Nothing has been written before.
local function outside(now)
  error('sluice-outside:' .. string.format('%.0f', now), 0)
end
