-- The leaky bucket, as algo.LeakyBucket. Numbers: kind, num, den, queue, undelayed, and
-- the den in the period of its rate, 0 if it takes longer to empty the bucket. A state is
-- the time it was last charged at, and the work in the queue: u units and f/den of one.
do
  local function state(p, at, u, f)
    return { p = p, at = at, u = u, f = f }
  end

  -- kept returns the state that the elements of its value stand for.
  local function kept(_, at, u, f, ...)
    return state({ ... }, at, u, f)
  end

  local function value(s)
    return cmsgpack.pack(3, s.at, s.u, s.f, unpack(s.p))
  end

  -- period returns how far time may go back before the clock counts as set back.
  local function period(p)
    if p[6] > 0 then
      return p[6] * p[3]
    end
    local micros, rest = muldiv(p[4] + 1, p[3], p[2])
    return rest > 0 and micros + 1 or micros
  end

  -- settled returns the work as of the question, the time that is, and whether the
  -- clock was set back.
  local function settled(s, now)
    local p, u, f = s.p, s.u, s.f
    if now >= s.at then
      u, f = decay(p, u, f, now - s.at)
      return u, f, now, false
    end
    if s.at - now <= period(p) then
      return u, f, s.at, false
    end
    if u < p[4] + 1 then
      u, f = p[4] + 1, 0
    end
    return u, f, now, true
  end

  -- settle replaces the cost of a charge that is the tail of the queue: those behind it
  -- have been promised their moments.
  local function settle(s, c, actual, now)
    local p = s.p
    local u, f, at, setback = settled(s, now)
    if setback or u + f == 0 or at < c[3] then
      return s
    end
    local ou, of = decay(p, c[4], c[5], at - c[3])
    if u ~= ou or f ~= of then
      return s
    end
    local more, left = min(actual, exact - 1) - c[1], p[4] + 1 - u
    if more <= 0 then
      if u < -more then
        return state(p, at, 0, 0)
      end
      return state(p, at, u + more, f)
    end
    if left <= 0 then
      return state(p, at, u, f)
    end
    if more < left or more == left and f == 0 then
      return state(p, at, u + more, f)
    end
    return state(p, at, p[4] + 1, 0)
  end

  kinds[3] = {
    fresh = function(p)
      return state(p, 0, 0, 0)
    end,

    load = function(_, raw)
      if not raw or string.byte(raw) ~= 3 then
        return nil
      end
      local s = kept(cmsgpack.unpack(raw))
      s.raw = raw
      return s
    end,

    convert = function(s, p, now)
      local u, f, at = settled(s, now)
      u, f = scaled(u, f, s.p[3], p[3])
      return state(p, at, u, f)
    end,

    decide = function(s, q, now)
      local p, cost, wait = s.p, q[1], q[3]
      local u, f, at, setback = settled(s, now)
      if setback then
        s = state(p, at, u, f)
      end
      if cost == 0 then
        return true, s
      end
      -- The units that may be in the house: the one that is leaving and those that wait.
      local places = p[4] + 1 - q[2]
      if cost > places then
        return false, s
      end
      local free = places - u
      if cost > free or cost == free and f > 0 then
        return false, s
      end
      -- The last unit leaves after all before it.
      if wait ~= 0 and not within(p, u + cost - 1 - p[5], f, max(wait, 0) - (at - now)) then
        return false, s
      end
      return true, state(p, at, u + cost, f)
    end,

    view = function(s, _, now)
      if s.u + s.f == 0 and s.at <= now then
        return ''
      end
      return s.raw or value(s)
    end,

    save = function(key, s, now)
      if s.u + s.f == 0 and s.at <= now then
        redis.call('DEL', key)
        return
      end
      local value = value(s)
      local ms = px(filled(s.p, s.u, s.f) + s.at - now, now)
      redis.call('SET', key, value, 'PX', ms)
    end,

    isfresh = function(s, now)
      if now < s.at then
        return false
      end
      local u, f = decay(s.p, s.u, s.f, now - s.at)
      return u + f == 0
    end,

    charge = function(c, from, p)
      local ou, of = scaled(c[4], c[5], from[3], p[3])
      return { c[1], c[2], c[3], ou, of, c[6] }
    end,

    cancel = function(s, c, now)
      if c[1] == 0 then
        return s
      end
      local p = s.p
      local _, _, at = settled(s, now)
      local since = at - c[3]
      if since > 0 then
        -- What is ahead of it, without the part that leaves at once.
        local u, f = c[4] - 1 - p[5], c[5]
        if u >= 0 then
          u, f = decay(p, u, f, since - 1)
        end
        if u < 0 or u + f == 0 then
          return s -- it has left
        end
      end
      return settle(s, c, 0, now)
    end,

    settle = settle,
  }
end
