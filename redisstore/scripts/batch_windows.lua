-- Decides most batches of fixed windows, as batch_quick.lua decides batches of several kinds.
-- ARGV[1]: false, and then for keys in a row with one limit and one cost: how many they are, the
-- numbers count, length and form, the cost, and all numbers of the limit as they are kept. If all
-- pass, it replies with the texts of the states after the charges, one after the other. Otherwise
-- the reply is as in batch_quick.lua. Keep it and window_quick.lua alike.
local a = { cmsgpack.unpack(ARGV[1]) }
if a[1] == false then
  local keys, call, pack, take, sub, format = KEYS, redis.call, struct.pack, struct.unpack, string.sub, string.format
  local raws, values, times, all, i = call('MGET', unpack(keys)), {}, {}, 1, 0
  local keep, slack = redis.REDIS_VERSION_NUM, now % 1000 + 20999
  for j = 2, #a, 6 do
    local count, length, cost, numbers = a[j + 1], a[j + 2], a[j + 4], a[j + 5]
    -- A window that opens now, and how most texts of a state in it begin and end.
    local opens = now + length
    if a[j + 3] == 0 then
      opens = opens - now % length
    end
    local head, tail = pack('>BBI8B', 4, 207, opens, 206), pack('>BI8', 207, now) .. numbers
    local time, size, form = format('%d', (opens - now + slack) / 1000), 24 + #numbers, '>c11I4BI8c' .. #numbers
    for _ = 1, a[j] do
      i = i + 1
      local raw, ends, used, ms = raws[i], opens, 0, time
      if raw then
        local begin, units, tag, last, rest
        if #raw == size then
          begin, units, tag, last, rest = take(form, raw)
        end
        if begin == head and tag == 207 and rest == numbers then
          used = units
        else
          local from, k, till
          from, k, till, units, last = cmsgpack.unpack_limit(raw, 4, 0)
          if k ~= 4 or sub(raw, from + 1) ~= numbers or now < till - length then
            all = 2
            break
          end
          if now < till then
            ends, used = till, units
            ms = format('%d', (ends - now + slack) / 1000)
          end
        end
        if now < last then
          all = 2
          break
        end
        if used > 0 and keep then
          ms = false
        end
      else
        call('GET', keys[i]) -- an error if the key holds something else
        raws[i] = '\192'
      end
      used = used + cost
      if used > count then
        all = 0
      elseif used >= 4294967296 then
        values[i] = pack('>BBI8', 4, 207, ends) .. cmsgpack.pack(used, now) .. numbers
      elseif ends == opens then
        values[i] = head .. pack('>I4', used) .. tail
      else
        values[i] = pack('>BBI8BI4', 4, 207, ends, 206, used) .. tail
      end
      times[i] = ms
    end
    if all == 2 then
      break
    end
  end
  if all == 1 then
    for i = 1, #keys do
      local ms = times[i]
      if ms then
        call('SET', keys[i], values[i], 'PX', ms)
      else
        call('SET', keys[i], values[i], 'KEEPTTL')
      end
    end
    return table.concat(values)
  elseif all == 0 and ARGV[2] ~= 'D' then -- the rest of the script charges debits
    return pack('>BI8B', 207, now, 2) .. table.concat(raws)
  end
end
