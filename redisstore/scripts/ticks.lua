-- What the token bucket and the leaky bucket share. Both count in ticks: one unit is den
-- ticks, and one microsecond gives back num ticks. Numbers of ticks are split into whole
-- units u and f/den of a unit. The numbers p of both begin with kind, num and den. p[6] is
-- how often den fits into the rate's period, 0 if filling the bucket takes longer than the
-- period.

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

-- minus takes gu and gf from u and f. A result below nothing has a negative u.
local function minus(den, u, f, gu, gf)
  u, f = u - gu, f - gf
  if f < 0 then
    return u - 1, f + den
  end
  return u, f
end

-- lowered takes gu and gf from u and f, down to nothing.
local function lowered(den, u, f, gu, gf)
  u, f = minus(den, u, f, gu, gf)
  if u < 0 then
    return 0, 0
  end
  return u, f
end

-- raised adds so many whole units to u and f, up to most units. What was above that stays.
local function raised(u, f, more, most)
  local room = most - u
  if room <= 0 then
    return u, f
  end
  if more < room or more == room and f == 0 then
    return u + more, f
  end
  return most, 0
end

-- decay returns what is left of u and f after so many microseconds.
local function decay(p, u, f, passed)
  if u == 0 and f == 0 or passed == 0 then
    return u, f
  end
  return lowered(p[3], u, f, muldiv(passed, p[2], p[3]))
end

-- within reports whether so many microseconds give back u and f.
local function within(p, u, f, micros)
  if u < 0 or u == 0 and f == 0 then
    return true
  end
  return micros > 0 and not beyond(u, f, muldiv(micros, p[2], p[3]))
end

-- scaled returns u and f under another den, rounded up, at most 2^62 ticks.
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

-- faster reports whether the rate of p is higher than the rate of from.
local function faster(p, from)
  return less(from[2], p[3], p[2], from[3])
end

-- carry returns u and f of from as p counts on from the same moment, rounded up. Above base
-- units, they are requests that wait for promised moments. They keep these moments under a
-- higher rate too.
local function carry(p, from, u, f, base)
  if not beyond(u, f, base, 0) or not faster(p, from) then
    return scaled(u, f, from[3], p[3])
  end
  local mu, mf = muldiv(2147483648, 2147483648, p[3])
  if mu >= exact - 1 then
    mu, mf = exact - 1, 0
  end
  -- What waits, as time: whole microseconds, and the rest in ticks of from.
  local num = from[2]
  local micros, rest = muldiv(u - base, from[3], num)
  local more = f % num
  micros = micros + (f - more) / num
  if rest >= num - more then
    micros, rest = micros + 1, rest - (num - more)
  else
    rest = rest + more
  end
  if micros >= exact then
    return mu, mf
  end
  local wu, wf = muldiv(micros, p[2], p[3])
  local ticks, part = muldiv(rest, p[2], num)
  if part > 0 then
    ticks = ticks + 1
  end
  wu, wf = plus(p[3], wu, wf, floor(ticks / p[3]), ticks % p[3])
  if beyond(wu, wf, mu - base, mf) then
    return mu, mf
  end
  return wu + base, wf
end

-- A level is the state of a bucket: the time of the last charge, and u units and f/den of
-- a unit. They are missing from a token bucket, or are the work in the queue of a leaky
-- bucket. A token bucket may also have lent; then its text has -f-1 in place of f.
local function level(p, at, u, f, lent)
  return { p = p, at = at, u = u, f = f, lent = lent }
end

local function fresh_level(p)
  return { p = p, at = 0, u = 0, f = 0, lent = false, raw = '' }
end

local function parse_level(_, at, u, f, ...)
  if f < 0 then
    return level({ ... }, at, u, -f - 1, true)
  end
  return level({ ... }, at, u, f, false)
end

local function level_value(s)
  return cmsgpack.pack(s.p[1], s.at, s.u, s.lent and -s.f - 1 or s.f, unpack(s.p))
end

-- left_of returns the microseconds until a level is fresh, or one or two more.
local function left_of(s, now)
  if s.u + s.f == 0 and s.at <= now then
    return 0
  end
  return min(floor((s.u * s.p[3] + s.f) / s.p[2]) + 2, 1e15) + s.at - now
end

local function is_fresh_level(s, now)
  if now < s.at then
    return false
  end
  local u, f = decay(s.p, s.u, s.f, now - s.at)
  return u + f == 0
end

-- settled_level returns the level at the time of a request, that time, and whether the
-- clock was set back. full is the level, in units, at which the whole budget is spent.
local function settled_level(s, now, full)
  local p, u, f = s.p, s.u, s.f
  if now >= s.at then
    u, f = decay(p, u, f, now - s.at)
    return u, f, now, false
  end
  -- How far time may go back before the clock counts as set back.
  local period = p[6] * p[3]
  if period == 0 then
    local rest
    period, rest = muldiv(full, p[3], p[2])
    if rest > 0 then
      period = period + 1
    end
  end
  if s.at - now <= period then
    return u, f, s.at, false
  end
  if u < full then
    u, f = full, 0
  end
  return u, f, now, true
end
