-- Sliding windows of cells. Numbers: kind, count, length, cells of a length, 1 if denied
-- attempts count. The text of a state is
--   msgpack(5, number of the newest cell, { units of cells, the newest first }, numbers...)
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

  local function state(p, newest, cells)
    return { p = p, newest = newest, cells = cells }
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
      return { p = p, newest = 0, cells = { 0 }, raw = '' }
    end,

    parse = function(_, newest, cells, ...)
      return state({ ... }, newest, cells)
    end,

    value = function(s)
      return cmsgpack.pack(5, s.newest, s.cells, unpack(s.p))
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
      if s.p[3] ~= p[3] or s.p[4] ~= p[4] then
        local t = state(p, floor(at / (p[3] / p[4])), { used })
        t.restamped = not back
        return t
      end
      if back then
        return state(p, index, { used })
      end
      return state(p, s.newest, s.cells)
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local index, used, _, back = settled(s, now)
      if back then
        s = state(p, index, { used })
      end
      local allowed, counts = admits(q, p[2], used, p[5])
      if not counts then
        return allowed, s
      end
      local cells = advanced(s, index)
      make_room(cells, cost - (exact - used))
      cells[1] = cells[1] + cost
      return allowed, state(p, index, cells)
    end,

    settle = function(s, c, actual, now)
      local p, change = s.p, actual - c[1]
      local cell = p[3] / p[4]
      local index, _, _, back = settled(s, now)
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
      return state(p, index, cells)
    end,
  }
end
