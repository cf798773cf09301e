-- The token bucket, as algo.Bucket. Numbers: kind, num, den, burst, debt, and how often
-- den fits into its rate's period. Its state is a level: see ticks.lua.
do
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

  -- settled returns what is missing at the time of a request, whether the bucket has
  -- lent, that time, and whether the clock was set back.
  local function settled(s, now)
    local u, f, at, setback = settled_level(s, now, s.p[4])
    return u, f, s.lent and u + f > 0, at, setback
  end

  -- credited returns a state with so much less missing.
  local function credited(p, at, u, f, lent, gu, gf)
    u, f = lowered(p[3], u, f, gu, gf)
    return level(p, at, u, f, lent and u + f > 0)
  end

  -- given returns what a charge took.
  local function given(p, c)
    return bounded(p, c[1], 0)
  end

  -- behind returns what waiting requests took after a charge that has not acted yet; 0 or
  -- less if there are none.
  local function behind(p, c, at, u, f)
    local since, ou, of, held = at - c[3], c[4], c[5], p[4]
    if ou + of > 0 then
      held = held - c[2]
      if held + ou < 0 then -- the charge left more than a bucket of these numbers holds
        return plus(p[3], u, f, muldiv(since, p[2], p[3]))
      end
    end
    -- The charge left held + over missing. Since then, all of over was refilled except
    -- for the last microsecond at most, which keeps sums small.
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

  -- owing returns a state with so many more units missing. Beyond burst and debt, they are
  -- forgiven.
  local function owing(p, at, u, f, lent, more)
    u, f = raised(u, f, min(more, exact - 1), p[4] + p[5])
    return level(p, at, u, f, lent)
  end

  kinds[1] = {
    fresh = fresh_level,
    parse = parse_level,
    value = level_value,
    left = left_of,
    isfresh = is_fresh_level,

    convert = function(s, p, now)
      local from = s.p
      local u, f, lent, at, back = settled(s, now)
      -- Tokens come back at the higher of both rates.
      local fast = not back and faster(p, from)
      if fast then
        u, f = s.u, s.f
        lent = lent or beyond(u, f, from[4], 0) -- requests wait for later moments
      end
      -- Once a bucket has lent, its level does not show how long requests wait.
      u, f = bounded(p, carry(p, from, u, f, s.lent and 0 or from[4]))
      if fast then
        u, f = decay(p, u, f, at - s.at)
      end
      local t = level(p, at, u, f, lent and u + f > 0)
      t.moves = back or select(5, settled(t, now))
      return t
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local u, f, lent, at, setback = settled(s, now)
      if setback then
        s = level(p, at, u, f, lent)
      end
      local wait = q[3] - (at - now)
      if cost == 0 then -- passes unless the bucket owes
        return within(p, u - p[4], f, wait), s
      end
      local room = p[4] - q[2]
      local least = cost
      if q[4] == OVERDRAW then
        least = need(q, p[4], (bound(p)))
      end
      if least <= room then
        local free = room - u
        if least < free or least == free and f == 0 then
          u = u + cost
          if least < cost then
            u, f = bounded(p, u, f)
          end
          return true, level(p, at, u, f, lent)
        end
        local mu, mf = bound(p)
        if wait > 0 and not beyond(cost, f, mu - u, mf) and within(p, u + least - room, f, wait) then
          -- With a floor, the level does not show when the request acts.
          return true, level(p, at, u + cost, f, lent or q[2] > 0)
        end
      end
      return false, q[4] == DEBIT and owing(p, at, u, f, lent, cost) or s
    end,

    charge = function(c, from, p, now)
      local since, ou, of = now - c[3], c[4], c[5]
      local wu, wf = 0, 0 -- what the higher rate of from refilled more
      if since > 0 and faster(from, p) then
        wu, wf = decay(from, ou, of, since - 1)
        if wu + wf == 0 then
          return { c[1], c[2], c[3], 0, 0, c[6] } -- the charge has acted
        end
        wu, wf = bounded(from, muldiv(since, from[2], from[3]))
        wu, wf = scaled(wu, wf, from[3], p[3])
        wu, wf = lowered(p[3], wu, wf, bounded(p, muldiv(since, p[2], p[3])))
      end
      ou, of = bounded(p, ou, (muldiv(of, p[3], from[3])))
      ou, of = lowered(p[3], ou, of, wu, wf)
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
          return s -- the charge has acted
        end
      end
      if lent and not waits then
        return s -- other requests may depend on the charge; which, is not known
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
      local more = min(actual, exact - 1) - c[1]
      if more > 0 then
        return owing(p, at, u, f, lent, more)
      else
        lent = lent or more < 0 and beyond(u, f, p[4], 0)
        return credited(p, at, u, f, lent, -more, 0)
      end
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
        gu, gf = lowered(p[3], gu, gf, ru, rf)
      end
      lent = lent or gu + gf > 0 and beyond(u, f, p[4], 0)
      return credited(p, at, u, f, lent, gu, gf)
    end,
  }
end
