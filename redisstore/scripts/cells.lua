-- Sliding windows of cells. Numbers: kind, count, length, cells of a length, 1 if denied
-- attempts count. The text of a state is
--   msgpack(5, number of the newest cell, time of the latest charge,
--     { units of cells, the newest first }, numbers...)
-- A state has one cell more than a length: the cell that is leaving. Cells that are missing
-- at the end hold nothing. All cells together hold 2^53 units at most.
do
  -- sum returns the units of the n newest cells.
  local function sum(cells, n)
    local units = 0
    for i = 1, min(n, #cells) do
      units = units + cells[i]
    end
    return units
  end

  local function state(p, newest, cells, last)
    return { p = p, newest = newest, cells = cells, last = last }
  end

  -- settled returns the number of the newest cell as of now, and the units that still
  -- count. It also returns the time to count from, and whether the clock was set back.
  local function settled(s, now)
    local p, newest, cells = s.p, s.newest, s.cells
    local cell = p[3] / p[4]
    local index = floor(now / cell)
    if index >= newest then
      return index, sum(cells, p[4] + 1 - (index - newest)), now, false
    end
    local start = newest * cell
    if start - now > p[3] then
      return index, max(sum(cells, #cells), p[2]), now, true
    end
    return newest, sum(cells, #cells), start, false
  end

  -- advanced returns a copy of the cells in which the cell of this number is the newest.
  local function advanced(s, index)
    local old, shift, last = s.cells, index - s.newest, s.p[4] + 1
    local copied = min(#old, last - shift)
    while copied > 0 and old[copied] == 0 do
      copied = copied - 1
    end
    if copied <= 0 then
      return { 0 }
    end
    local cells = {}
    for i = 1, shift do
      cells[i] = 0
    end
    for i = 1, copied do
      cells[shift + i] = old[i]
    end
    return cells
  end

  -- later returns the time of the latest charge, after another one.
  local function later(s, at)
    return sum(s.cells, #s.cells) > 0 and max(s.last, at) or at
  end

  -- make_room takes so many units, if any, from the oldest cells.
  local function make_room(cells, units)
    local i = #cells
    while units > 0 do
      local gone = min(units, cells[i])
      cells[i], units, i = cells[i] - gone, units - gone, i - 1
    end
  end

  kinds[5] = {
    fresh = function(p)
      return { p = p, newest = 0, cells = { 0 }, last = 0, raw = '' }
    end,

    parse = function(_, newest, last, cells, ...)
      return state({ ... }, newest, cells, last)
    end,

    value = function(s)
      return cmsgpack.pack(5, s.newest, s.last, s.cells, unpack(s.p))
    end,

    left = function(s, now)
      local p, cells = s.p, s.cells
      local cell = p[3] / p[4]
      for i = 1, #cells do
        if cells[i] > 0 then
          return (s.newest - i + p[4] + 2) * cell - now
        end
      end
      return s.newest * cell - now
    end,

    convert = function(s, p, now)
      local index, used, at, back = settled(s, now)
      local alike = s.p[3] == p[3] and s.p[4] == p[4]
      local cell, t = p[3] / p[4], nil
      if alike and not back then
        t = state(p, s.newest, s.cells, s.last)
      elseif alike then
        t = state(p, index, { used }, at)
      else
        if not back then
          local first = (floor(s.last / cell) + p[4] + 1) * cell
          used = min(used, carried(sum(s.cells, #s.cells), p[2], first, p[3], at))
        end
        if used == 0 then
          return kinds[5].fresh(p)
        end
        t = state(p, floor(at / cell), { used }, at)
      end
      t.moves = back or select(4, settled(t, now)) or alike and p[5] == 1
      return t
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local index, used, at, back = settled(s, now)
      if back then
        s = state(p, index, { used }, at)
      end
      local allowed, counts = admits(q, p[2], used, p[5], exact)
      if not counts then
        return allowed, s
      end
      cost = min(cost, allowed and q[4] == OVERDRAW and exact - used or exact) -- it may be a debit
      local cells = advanced(s, index)
      make_room(cells, cost - (exact - used))
      cells[1] = cells[1] + cost
      return allowed, state(p, index, cells, later(s, at))
    end,

    settle = function(s, c, actual, now)
      local p, change = s.p, actual - c[1]
      local cell = p[3] / p[4]
      local index, _, _, back = settled(s, now)
      if c[3] == exact and not back then -- the newest charges give units back
        local cells = advanced(s, index)
        change = min(change, 0)
        for i = 1, #cells do
          local give = min(cells[i], -change)
          cells[i], change = cells[i] - give, change + give
        end
        return state(p, index, cells, s.last)
      end
      local charged = floor(c[3] / cell)
      if back or index - charged > p[4] or charged * cell - now > p[3] then
        return s
      end
      index = max(index, charged) -- a charge that cost nothing did not move the state
      local cells, i = advanced(s, index), index - charged + 1
      for j = #cells + 1, i do
        cells[j] = 0
      end
      if change > 0 then
        change = min(change, exact - sum(cells, #cells))
      end
      cells[i] = max(0, cells[i] + change)
      return state(p, index, cells, later(s, c[3]))
    end,
  }
end
