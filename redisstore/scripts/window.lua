-- Fixed windows: aligned to multiples of their length, opened by the first charge, or
-- periods of a calendar. Numbers: kind, count, length (the longest of a calendar), form
-- (0 aligned, 1 opened, else the calendar's identity), 1 if denied attempts count. The
-- text of a state is
--   msgpack(4, end, units used, time of the latest charge, begin if under a calendar, numbers...)
-- so that its begin is known without the calendar. For the end of a new window, q and c
-- end with the calendar's boundaries around the times that the caller expects.
do
  local OPENED = 1

  -- outside ends the script: the boundaries do not hold the server's time. Nothing was
  -- written before.
  local function outside(now)
    error('sluice-outside:' .. string.format('%.0f', now), 0)
  end

  -- period returns the begin and the end of the window that opens at t or holds it. For a
  -- calendar it looks into list, from first on.
  local function period(p, t, list, first, now)
    local length, form = p[3], p[4]
    if form == 0 then
      local begins = t - t % length
      return begins, begins + length
    end
    if form == OPENED then
      return t, t + length
    end
    for i = first, #list - 1 do
      local begins, ends = list[i], list[i + 1]
      -- Boundaries that are further apart do not belong to one period.
      if begins <= t and t < ends and ends - begins < 1.5 * length then
        return begins, ends
      end
    end
    return outside(now)
  end

  local function state(p, begins, ends, used, last)
    return { p = p, begins = begins, ends = ends, used = used, last = last }
  end

  local function fresh(p)
    return { p = p, begins = 0, ends = 0, used = 0, last = 0, raw = '' }
  end

  -- latest returns the time of the latest charge, or slightly later: package algo has few
  -- bits for the time from it to the end.
  local function latest(s)
    local unit = 1
    while unit * 524288 <= s.p[3] do
      unit = unit * 2
    end
    return s.ends - floor((s.ends - s.last) / unit) * unit
  end

  -- left_under returns what is left of the units of s under other numbers, see carried. now
  -- is the begin of the period with a calendar.
  local function left_under(s, p, used, now)
    local last = latest(s)
    local first = last + p[3]
    if p[4] > OPENED then
      first = last + 1
    elseif p[4] == 0 then
      first = first - last % p[3]
    end
    return min(used, carried(s.used, p[2], first, p[3], now))
  end

  -- resolve sets the window of a state that was converted to a calendar: only a request
  -- has the boundaries. They reach two periods beyond now. A window that begins later than
  -- one period from now means that the clock was set back.
  local function resolve(s, q, now)
    if s.at then
      if s.at - now > 2 * s.p[3] then
        s.at, s.used, s.from, s.moves = now, max(s.used, s.p[2]), nil, true
      end
      s.begins, s.ends = period(s.p, s.at, q, 5, now)
      if s.from then
        s.used = left_under(s.from, s.p, s.used, s.begins)
      end
      s.last, s.at = s.at, nil
      s.moves = s.moves or s.begins - now > s.p[3]
    end
  end

  -- settled returns the units used as of now, and the time to count from. It also returns
  -- whether s is the current window, and whether the clock was set back.
  local function settled(s, now)
    if now >= s.ends then
      return 0, now, false, false
    end
    if now >= s.begins or s.begins - now <= s.p[3] then
      return s.used, max(now, s.begins), true, false
    end
    return max(s.used, s.p[2]), now, false, true
  end

  local function left(s, now)
    if s.used == 0 and s.p[4] ~= OPENED then
      return s.begins - now
    end
    return s.ends - now
  end

  local function value(s)
    if s.p[4] > OPENED then
      return cmsgpack.pack(4, s.ends, s.used, s.last, s.begins, unpack(s.p))
    end
    return cmsgpack.pack(4, s.ends, s.used, s.last, unpack(s.p))
  end

  local function settle(s, c, actual, now)
    local p, change = s.p, actual - c[1]
    if left(s, now) <= 0 then
      -- No window is kept, but the window of a charge that cost nothing may not be over.
      if change > 0 and c[3] - now <= p[3] then
        local begins, ends = period(p, c[3], c, 7, now)
        if now < ends then
          return state(p, begins, ends, min(change, exact), c[3])
        end
      end
      return s
    end
    if c[3] == exact then
      change = min(change, 0) -- the newest charges give units back
    elseif c[3] < s.begins or c[3] >= s.ends then
      return s
    end
    local last = s.last
    if change > 0 then
      last = s.used > 0 and max(last, c[3]) or c[3]
    end
    return state(p, s.begins, s.ends, max(0, min(s.used + change, exact)), last)
  end

  kinds[4] = {
    fresh = fresh,
    value = value,
    left = left,
    settle = settle,

    -- The text of the processes that hold units may come last.
    parse = function(_, ends, used, last, n1, n2, n3, n4, n5, n6, held)
      if n1 ~= 4 then
        return state({ n2, n3, n4, n5, n6, held }, n1, ends, used, last)
      end
      return state({ n1, n2, n3, n4, n5, n6 }, ends - n3, ends, used, last)
    end,

    convert = function(s, p, now)
      local used, at, _, back = settled(s, now)
      if not back and s.p[3] == p[3] and s.p[4] == p[4] then
        local t = state(p, s.begins, s.ends, s.used, s.last)
        t.moves = p[5] == 1
        return t
      end
      if used > 0 and p[4] > OPENED then
        return { p = p, at = at, used = used, from = not back and s, moves = back }
      end
      if not back then
        used = left_under(s, p, used, at)
      end
      if used == 0 then
        return fresh(p)
      end
      local begins, ends = period(p, at)
      local t = state(p, begins, ends, used, at)
      t.moves = back or begins - now > p[3]
      return t
    end,

    decide = function(s, q, now)
      resolve(s, q, now)
      local p, cost = s.p, q[1]
      local used, at, same, back = settled(s, now)
      local begins, ends = s.begins, s.ends
      if back or not same and cost > 0 then
        begins, ends = period(p, at, q, 5, now)
      end
      local allowed, counts = admits(q, p[2], used, p[5], exact)
      if counts then
        local last = ends == s.ends and s.used > 0 and max(s.last, at) or at
        return allowed, state(p, begins, ends, min(used + cost, exact), last)
      end
      return allowed, back and state(p, begins, ends, used, at) or s
    end,

    -- undo also closes the window that the charge has opened.
    undo = function(s, c, now)
      s = settle(s, c, 0, now)
      if s.used == 0 and s.p[4] == OPENED and s.begins == c[3] then
        return fresh(s.p)
      end
      return s
    end,
  }
end
