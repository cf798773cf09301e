-- Decides most batches of token buckets, as batch_quick.lua decides batches of several kinds.
-- ARGV[1]: for each key the numbers num, den and burst, the cost, and all numbers of the limit
-- as they are kept. If all pass, it replies with the texts of the states after the charges,
-- one after the other. Otherwise the reply is as in batch_quick.lua. Keep it and bucket.lua
-- alike. For four buckets the server runs 0.88 × the instructions of batch_quick.lua.
local keys, call, split, pack, sub, format = KEYS, redis.call, cmsgpack.unpack_limit, struct.pack, string.sub, string.format
local a = { cmsgpack.unpack(ARGV[1]) }
if a[2] then
  local raws, all, head, slack = call('MGET', unpack(keys)), 1, pack('>BBI8', 1, 207, now), now % 1000 + 21000
  for i = 1, #keys do
    local j, raw = 5 * i, raws[i]
    local num, den, numbers, u, f = a[j - 4], a[j - 3], a[j], a[j - 1], 0
    if raw then
      local from, k, at, was, part = split(raw, 4, 0)
      if k ~= 1 or sub(raw, from + 1) ~= numbers or part < 0 or now < at then
        all = 2
        break
      end
      local refilled = (now - at) * num
      local rest = refilled % den
      was = was - (refilled - rest) / den
      f = part - rest
      if f < 0 then
        was, f = was - 1, f + den
      end
      if was < 0 then
        f = 0
      else
        u = u + was
      end
      if refilled >= 9007199254740992 then
        all = 2
        break
      end
    else
      call('GET', keys[i]) -- an error if the key holds something else
    end
    local burst = a[j - 2]
    if u < burst or u == burst and f == 0 then
      a[j - 1] = format('%d', ((u + f / den) * (den / num) * 1.0000000001 + slack) / 1000)
      if f < 4294967296 and u < 128 then
        raws[i] = head .. pack('>BBI4', u, 206, f) .. numbers
      else
        raws[i] = head .. cmsgpack.pack(u, f) .. numbers
      end
    else
      all = 0
    end
  end
  if all == 1 then
    for i = 1, #keys do
      call('SET', keys[i], raws[i], 'PX', a[5 * i - 1])
    end
    return table.concat(raws)
  elseif all == 0 and ARGV[2] ~= 'D' then -- the rest of the script charges debits
    raws = call('MGET', unpack(keys))
    for i = 1, #keys do
      raws[i] = raws[i] or '\192'
    end
    return pack('>BI8B', 207, now, 2) .. table.concat(raws)
  end
end
