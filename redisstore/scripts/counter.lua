-- Sliding counters: the units of the current window, and the units of the window before,
-- weighted by the part of it that still counts. Numbers: kind, count, length, 1 if denied
-- attempts count. The text of a state is
--   msgpack(6, number of the window, units of the one before, units, time of the latest charge,
--     numbers...)
do
  -- No window counts more, as in package algo.
  local most = 2 ^ 40 - 1

  local function state(p, index, prev, cur, last)
    return { p = p, index = index, prev = prev, cur = cur, last = last }
  end

  -- later returns the time of the latest charge, after another one in a window.
  local function later(s, index, at)
    return index == s.index and s.prev + s.cur > 0 and max(s.last, at) or at
  end

  -- settled returns the window as of now, the units of the window before, and its own
  -- units. It also returns the time to count from, and whether the clock was set back.
  local function settled(s, now)
    local p, index = s.p, s.index
    local i = floor(now / p[3])
    if i == index then
      return i, s.prev, s.cur, now, false
    end
    if i > index then
      return i, i == index + 1 and s.cur or 0, 0, now, false
    end
    local start = index * p[3]
    if start - now <= p[3] then
      return index, s.prev, s.cur, start, false
    end
    return i, 0, max(s.cur, p[2]), now, true
  end

  -- weighted returns what prev still counts so long into the next window.
  local function weighted(prev, into, length)
    if prev == 0 then
      return 0
    end
    local units, rest = muldiv(prev, length - into, length)
    return rest > 0 and units + 1 or units
  end

  kinds[6] = {
    fresh = function(p)
      return { p = p, index = 0, prev = 0, cur = 0, last = 0, raw = '' }
    end,

    parse = function(_, index, prev, cur, last, ...)
      return state({ ... }, index, prev, cur, last)
    end,

    value = function(s)
      return cmsgpack.pack(6, s.index, s.prev, s.cur, s.last, unpack(s.p))
    end,

    left = function(s, now)
      local windows = s.cur > 0 and 2 or s.prev > 0 and 1 or 0
      return (s.index + windows) * s.p[3] - now
    end,

    convert = function(s, p, now)
      local index, prev, cur, at, back = settled(s, now)
      local length, t = s.p[3], nil
      if length == p[3] and not back then
        t = state(p, s.index, s.prev, s.cur, s.last)
      elseif length == p[3] then
        t = state(p, index, prev, cur, at)
      else
        local used = weighted(prev, at - index * length, length) + cur
        if not back then
          -- Package algo has few bits for their latest moment: the units weigh what they weighed
          -- then or slightly before, and count from then or slightly later.
          local start = s.index * length
          local into = max(0, s.last - start)
          into = into - into % 64
          local units = weighted(s.prev, min(into, length), length) + s.cur
          local last = start + into + 63
          used = min(used, carried(units, p[2], (floor(last / p[3]) + 2) * p[3], p[3], at))
        end
        if used == 0 then
          return kinds[6].fresh(p)
        end
        t = state(p, floor(at / p[3]), 0, min(used, most), at)
      end
      t.moves = back or select(5, settled(t, now)) or length == p[3] and p[4] == 1
      return t
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local index, prev, cur, at, back = settled(s, now)
      if back then
        s = state(p, index, prev, cur, at)
      end
      local used = weighted(prev, at - index * p[3], p[3]) + cur
      local allowed, counts = admits(q, p[2], used, p[4], most)
      if counts then
        return allowed, state(p, index, prev, min(cur + cost, most), later(s, index, at))
      end
      return allowed, s
    end,

    settle = function(s, c, actual, now)
      local p, change = s.p, actual - c[1]
      local index, prev, cur, _, back = settled(s, now)
      if back then
        return s
      end
      if c[3] == exact then -- the newest charges give units back
        local units = max(0, -change)
        local give = min(cur, units)
        return state(p, index, prev - min(prev, units - give), cur - give, later(s, index, index * p[3]))
      end
      local i = floor(c[3] / p[3])
      if i > index and i * p[3] - now <= p[3] then -- a charge that cost nothing did not move the state
        index, prev, cur = settled(s, c[3])
      end
      if i == index then
        cur = max(0, min(cur + change, most))
      elseif i == index - 1 then
        prev = max(0, min(prev + change, most))
      else
        return s
      end
      return state(p, index, prev, cur, later(s, index, c[3]))
    end,
  }
end
