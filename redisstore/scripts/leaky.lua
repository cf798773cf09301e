-- The leaky bucket, as algo.LeakyBucket. Numbers: kind, num, den, queue, undelayed, and
-- how often den fits into its rate's period. Its state is a level: see ticks.lua.
do
  local function settled(s, now)
    return settled_level(s, now, s.p[4] + 1)
  end

  -- settle replaces the cost of a charge if it is the last in the queue. The units behind
  -- another charge were promised their moments.
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
    local more = min(actual, exact - 1) - c[1]
    if more <= 0 then
      u, f = lowered(p[3], u, f, -more, 0)
    else
      u, f = raised(u, f, more, p[4] + 1)
    end
    return level(p, at, u, f)
  end

  kinds[3] = {
    fresh = fresh_level,
    parse = parse_level,
    value = level_value,
    left = left_of,
    isfresh = is_fresh_level,
    settle = settle,

    convert = function(s, p, now)
      local from = s.p
      local u, f, at, back = settled(s, now)
      if back or not faster(p, from) then
        u, f = scaled(u, f, from[3], p[3])
      else -- units leave at the higher of both rates
        u, f = carry(p, from, s.u, s.f, from[5] + 1)
        u, f = decay(p, u, f, at - s.at)
      end
      local t = level(p, at, u, f)
      t.moves = back or select(4, settled(t, now))
      return t
    end,

    decide = function(s, q, now)
      local p, cost, wait = s.p, q[1], q[3]
      local u, f, at, setback = settled(s, now)
      if setback then
        s = level(p, at, u, f)
      end
      if cost == 0 then
        return true, s
      end
      -- The units that may be present: the leaving unit and the waiting ones.
      local room = p[4] + 1 - q[2]
      if cost > room then
        return false, s
      end
      local free = room - u
      if cost > free or cost == free and f > 0 then
        return false, s
      end
      -- The last unit leaves after all before it.
      if wait ~= 0 and not within(p, u + cost - 1 - p[5], f, max(wait, 0) - (at - now)) then
        return false, s
      end
      return true, level(p, at, u + cost, f)
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
        -- What is ahead of the charge, without the part that leaves at once.
        local u, f = c[4] - 1 - p[5], c[5]
        if u >= 0 then
          u, f = decay(p, u, f, since - 1)
        end
        if u < 0 or u + f == 0 then
          return s -- the charge has left
        end
      end
      return settle(s, c, 0, now)
    end,
  }
end
