-- Decides most batches of token buckets: distinct keys that were last asked for under
-- the same numbers and at an earlier time, each for some units and nothing else. It makes
-- no function, and leaves all other batches to what follows. Keep it and bucket.lua
-- alike. ARGV[2]: for each key num, den, burst, and cost. ARGV[3] and on: their numbers, as
-- they are kept. Replies with the server's time, whether all pass, plus 2, and what
-- was kept at each key, nil for nothing.
if ARGV[2] then
  local a = { cmsgpack.unpack(ARGV[2]) }
  local raws = redis.call('MGET', unpack(KEYS))
  local values, all = {}, 1
  for i = 1, #KEYS do
    local num, den, burst = a[4 * i - 3], a[4 * i - 2], a[4 * i - 1]
    local u, f, raw = 0, 0, raws[i]
    if raw then
      local kind, at, was, part = cmsgpack.unpack(raw)
      local numbers = ARGV[2 + i]
      local refilled = (now - at) * num
      if kind ~= 1 or part < 0 or now < at or refilled >= 9007199254740992
        or string.sub(raw, -#numbers) ~= numbers then
        all = 2
        break
      end
      local rest = refilled % den
      u, f = was - (refilled - rest) / den, part - rest
      if f < 0 then
        u, f = u - 1, f + den
      end
      if u < 0 then
        u, f = 0, 0
      end
    else
      raws[i] = '\192'
    end
    u = u + a[4 * i]
    if u > burst or u == burst and f > 0 then
      all = 0
    end
    values[2 * i - 1], values[2 * i] = u, f
  end
  if all == 1 then
    for i = 1, #KEYS do
      local num, den, u, f = a[4 * i - 3], a[4 * i - 2], values[2 * i - 1], values[2 * i]
      local micros = (u + f / den) * (den / num) * 1.0000000001 + now % 1000 + 2000
      local ms, value = (micros - micros % 1000) / 1000
      if u < 128 and f < 4294967296 then
        value = struct.pack('>BBI8BBI4', 1, 207, now, u, 206, f) .. ARGV[2 + i]
      else
        value = cmsgpack.pack(1, now, u, f) .. ARGV[2 + i]
      end
      redis.call('SET', KEYS[i], value, 'PX', ms)
    end
  end
  if all < 2 then
    return struct.pack('>BI8B', 207, now, 2 + all) .. table.concat(raws)
  end
end
