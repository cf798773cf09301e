-- The token bucket, as algo.Bucket. Numbers: kind, num, den, burst, debt, and the den
-- in the period of its rate, 0 if it takes longer to fill the bucket. A state is the
-- time it was last charged at, and what is missing from a full bucket: u units and f/den
-- of one. A bucket that has lent is kept with -f-1 in place of f.
do
  local function state(p, at, u, f, lent)
    return { p = p, at = at, u = u, f = f, lent = lent }
  end

  -- kept returns the state that the elements of its value stand for.
  local function kept(_, at, u, f, ...)
    if f < 0 then
      return state({ ... }, at, u, -f - 1, true)
    end
    return state({ ... }, at, u, f, false)
  end

  local function value(s)
    return cmsgpack.pack(1, s.at, s.u, s.lent and -s.f - 1 or s.f, unpack(s.p))
  end

  -- period returns how far time may go back before the clock counts as set back.
  local function period(p)
    if p[6] > 0 then
      return p[6] * p[3]
    end
    local micros, rest = muldiv(p[4], p[3], p[2])
    return rest > 0 and micros + 1 or micros
  end

  -- bound returns what may be missing at most: 2^62 ticks, and less than 2^53 units.
  local function bound(p)
    local u, f = muldiv(2147483648, 2147483648, p[3])
    return min(u, exact - 1), f
  end

  -- bounded returns u and f, or bound if that is less.
  local function bounded(p, u, f)
    local mu, mf = bound(p)
    if beyond(u, f, mu, mf) then
      return mu, mf
    end
    return u, f
  end

  -- settled returns what is missing as of the question, whether the bucket has lent,
  -- the time that is, and whether the clock was set back.
  local function settled(s, now)
    local p, u, f = s.p, s.u, s.f
    if now >= s.at then
      u, f = decay(p, u, f, now - s.at)
      return u, f, s.lent and u + f > 0, now, false
    end
    if s.at - now <= period(p) then
      return u, f, s.lent, s.at, false
    end
    if u < p[4] then
      u, f = p[4], 0
    end
    return u, f, s.lent, now, true
  end

  -- credited returns a state with so much less missing.
  local function credited(p, at, u, f, lent, gu, gf)
    if not beyond(u, f, gu, gf) then
      return state(p, at, 0, 0, false)
    end
    u, f = minus(p[3], u, f, gu, gf)
    return state(p, at, u, f, lent)
  end

  -- given returns what a charge took.
  local function given(p, c)
    return bounded(p, c[1], 0)
  end

  -- faster reports whether the rate of p is higher than that of from.
  local function faster(p, from)
    return less(from[2], p[3], p[2], from[3])
  end

  -- behind returns what was taken after a charge, which has not acted yet, by those who
  -- wait; 0 or less if nothing was.
  local function behind(p, c, at, u, f)
    local since, ou, of, held = at - c[3], c[4], c[5], p[4]
    if ou + of > 0 then
      held = held - c[2]
      if held + ou < 0 then -- it left more than a bucket of these numbers holds
        return plus(p[3], u, f, muldiv(since, p[2], p[3]))
      end
    end
    -- The charge left held + over missing, of which since has been refilled: all of
    -- over but for the last microsecond at most, which keeps sums small.
    u = u - held
    local nu = 0
    local nf = 0
    if since > 0 then
      ou, of = decay(p, ou, of, since - 1)
      nu, nf = muldiv(1, p[2], p[3])
    end
    nu, nf = minus(p[3], nu, nf, ou, of)
    return plus(p[3], u, f, nu, nf)
  end

  kinds[1] = {
    fresh = function(p)
      return state(p, 0, 0, 0, false)
    end,

    load = function(_, raw)
      if not raw or string.byte(raw) ~= 1 then
        return nil
      end
      local s = kept(cmsgpack.unpack(raw))
      s.raw = raw
      return s
    end,

    convert = function(s, p, now)
      local from = s.p
      local u, f, lent, at = settled(s, now)
      if u + f == 0 then
        return state(p, at, 0, 0, false) -- a full bucket stays full
      end
      if not beyond(u, f, from[4], 0) then -- tokens are held: round down
        u, f = minus(from[3], from[4], 0, u, f)
        f = muldiv(f, p[3], from[3])
        return credited(p, at, p[4], 0, lent, u, f)
      end
      u, f = scaled(u - from[4], f, from[3], p[3])
      local mu, mf = bound(p)
      if beyond(u, f, mu - p[4], mf) then
        u, f = mu, mf
      else
        u = u + p[4]
      end
      -- At a higher rate, those who wait were told later moments.
      return state(p, at, u, f, lent or faster(p, from))
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local u, f, lent, at, setback = settled(s, now)
      if setback then
        s = state(p, at, u, f, lent)
      end
      local wait = q[3] - (at - now)
      if cost == 0 then -- passes unless the bucket owes
        return within(p, u - p[4], f, wait), s
      end
      local room = p[4] - q[2]
      if cost > room then
        return false, s
      end
      local free = room - u
      if cost < free or cost == free and f == 0 then
        return true, state(p, at, u + cost, f, lent)
      end
      if wait <= 0 then
        return false, s
      end
      local mu, mf = bound(p)
      if beyond(cost, f, mu - u, mf) or not within(p, u + cost - room, f, wait) then
        return false, s
      end
      -- If it waits for a floor too, the level does not tell when it acts.
      return true, state(p, at, u + cost, f, lent or q[2] > 0)
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

    charge = function(c, from, p, now)
      local since, ou, of = now - c[3], c[4], c[5]
      local wu, wf = 0, 0 -- what the higher rate of from refilled more
      if since > 0 and faster(from, p) then
        wu, wf = decay(from, ou, of, since - 1)
        if wu + wf == 0 then
          return { c[1], c[2], c[3], 0, 0, c[6] } -- it has acted
        end
        wu, wf = bounded(from, muldiv(since, from[2], from[3]))
        wu, wf = scaled(wu, wf, from[3], p[3])
        local iu, jf = bounded(p, muldiv(since, p[2], p[3]))
        if beyond(wu, wf, iu, jf) then
          wu, wf = minus(p[3], wu, wf, iu, jf)
        else
          wu, wf = 0, 0
        end
      end
      ou, of = bounded(p, ou, (muldiv(of, p[3], from[3])))
      if beyond(ou, of, wu, wf) then
        ou, of = minus(p[3], ou, of, wu, wf)
      else
        ou, of = 0, 0
      end
      return { c[1], c[2], c[3], ou, of, c[6] }
    end,

    cancel = function(s, c, now)
      local p = s.p
      local u, f, lent, at, setback = settled(s, now)
      if c[1] == 0 or setback or at < c[3] then
        return s
      end
      local waits = c[4] + c[5] > 0
      if at > c[3] then
        local ou, of = decay(p, c[4], c[5], at - c[3] - 1)
        if ou + of == 0 then
          return s -- it has acted
        end
      end
      if lent and not waits then
        return s -- who stands on it is not known
      end
      local gu, gf = given(p, c)
      local bu, bf = behind(p, c, at, u, f)
      if beyond(bu, bf, 0, 0) then
        if lent or not beyond(gu, gf, bu, bf) then
          return s
        end
        gu, gf = minus(p[3], gu, gf, bu, bf)
        lent = true
      end
      return credited(p, at, u, f, lent, gu, gf)
    end,

    settle = function(s, c, actual, now)
      local p = s.p
      local u, f, lent, at = settled(s, now)
      local more, left = min(actual, exact - 1) - c[1], p[4] + p[5] - u
      if more <= 0 then
        lent = lent or more < 0 and beyond(u, f, p[4], 0)
        return credited(p, at, u, f, lent, -more, 0)
      end
      if left <= 0 then
        return state(p, at, u, f, lent) -- all of it is forgiven
      end
      if more < left or more == left and f == 0 then
        return state(p, at, u + more, f, lent)
      end
      return state(p, at, p[4] + p[5], 0, lent)
    end,

    undo = function(s, c, now)
      local p = s.p
      local u, f, lent, at, setback = settled(s, now)
      if setback or at < c[3] then
        return s
      end
      local gu, gf = given(p, c)
      local ru, rf = muldiv(at - c[3], p[2], p[3])
      local mu, mf = bound(p)
      if not beyond(mu, mf, ru, rf) then
        return s
      end
      if beyond(ru, rf, c[4], c[5]) then
        ru, rf = minus(p[3], ru, rf, c[4], c[5])
        gu, gf = minus(p[3], gu, gf, ru, rf)
        if gu < 0 then
          gu, gf = 0, 0
        end
      end
      lent = lent or gu + gf > 0 and beyond(u, f, p[4], 0)
      return credited(p, at, u, f, lent, gu, gf)
    end,
  }
end
