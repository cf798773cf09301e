-- Sliding windows of cells. Numbers: kind, count, length, cells of a length, 1 if denied
-- attempts count. The value is
--   msgpack(5, number of the newest cell, { units of cells, the newest first }, numbers...)
-- One cell more than a length has counts: the one that is leaving. Cells that are
-- missing at the end hold nothing. All of them hold 2^53 units at most together.
do
  -- sum returns the units of the n newest cells.
  local function sum(cells, n)
    local units = 0
    for i = 1, min(n, #cells) do
      units = units + cells[i]
    end
    return units
  end

  -- one returns a state of one cell.
  local function one(p, newest, units)
    return { p = p, newest = newest, cells = { units } }
  end

  -- settled returns the number of the newest cell as of now, the units that still
  -- count, the time to reckon from, and whether the clock was set back.
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

  -- advanced returns a copy of the cells in which that of an index is the newest.
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

  -- giveWay takes so many units, if any, from the oldest cells.
  local function giveWay(cells, over)
    local i = #cells
    while over > 0 do
      local gone = min(over, cells[i])
      cells[i], over, i = cells[i] - gone, over - gone, i - 1
    end
  end

  -- left returns the time until s equals a fresh state, 0 or less if it does.
  local function left(s, now)
    local p, cells = s.p, s.cells
    local cell = p[3] / p[4]
    for i = 1, #cells do
      if cells[i] > 0 then
        return (s.newest - i + p[4] + 2) * cell - now
      end
    end
    return s.newest * cell - now
  end

  local function encode(s)
    return cmsgpack.pack(5, s.newest, s.cells, unpack(s.p))
  end

  local function settle(s, c, actual, now)
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
    return { p = p, newest = index, cells = cells }
  end

  kinds[5] = {
    fresh = function(p)
      return { p = p, newest = 0, cells = { 0 }, raw = '' }
    end,

    load = function(key, raw, now)
      if not raw or string.byte(raw) ~= 5 then
        return nil
      end
      local _, newest, cells, kind, count, length, n, denied = cmsgpack.unpack(raw)
      return { p = { kind, count, length, n, denied }, newest = newest, cells = cells, raw = raw }
    end,

    convert = function(s, p, now)
      local index, used, at, back = settled(s, now)
      if s.p[3] ~= p[3] or s.p[4] ~= p[4] then
        local t = one(p, floor(at / (p[3] / p[4])), used)
        t.restamped = not back
        return t
      end
      if back then
        return one(p, index, used)
      end
      return { p = p, newest = s.newest, cells = s.cells }
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local index, used, _, back = settled(s, now)
      local kept = back and one(p, index, used) or s
      if cost == 0 then
        return used <= p[2] or p[5] == 1, kept
      end
      local allowed = cost <= p[2] - q[2] - used
      if not allowed and (p[5] == 0 or cost > p[2] - q[2]) then
        return false, kept
      end
      local cells = advanced(kept, index)
      giveWay(cells, cost - (exact - used))
      cells[1] = cells[1] + cost
      return allowed, { p = p, newest = index, cells = cells }
    end,

    view = function(s, q, now)
      return s.raw or encode(s)
    end,

    save = function(key, s, now)
      local rest = left(s, now)
      if rest <= 0 then
        redis.call('DEL', key)
        return
      end
      local value, ms = encode(s), px(rest, now)
      redis.call('SET', key, value, 'PX', ms)
    end,

    isfresh = function(s, now)
      return left(s, now) <= 0
    end,

    cancel = function(s, c, now)
      if now > c[3] then
        return s
      end
      return settle(s, c, 0, now)
    end,

    settle = settle,
  }
end
