-- Decides most requests to a fixed window without a calendar: requests for some units and
-- nothing else, except denials that count. The key was last used under the same numbers and
-- not after now, and its window does not begin after now. It leaves all other requests to the
-- rest of the script. Keep it and window.lua alike. The reply about an admitted request is the
-- text of the state after it, as in bucket_quick.lua. While a window lasts, its time to live
-- does not change. From Redis 7.0 on, scripts can see the version, and KEEPTTL is there.
if ARGV[3] ~= '1' then
  local call, key, numbers, cost, reserved, member, _ = redis.call, KEYS[1], ARGV[1], 1, 0, '', nil
  if ARGV[2] then
    cost, reserved, _, member = cmsgpack.unpack(ARGV[2])
  end
  local count, length, form, denied
  _, count, length, form, denied = cmsgpack.unpack(numbers)
  if form < 2 and cost > 0 and reserved == 0 then
    local raw = call('GET', key)
    local same, ends, used = true, 0, 0
    if raw then
      local from, k, till, units, last = cmsgpack.unpack_limit(raw, 4, 0)
      same = k == 4 and string.sub(raw, from + 1) == numbers and now >= last and now >= till - length
      if same and now < till then
        ends, used = till, units
      end
    end
    if same then
      if cost <= count - used then
        local keep, value = used > 0 and redis.REDIS_VERSION_NUM, nil
        if ends == 0 then
          ends = now + length
          if form == 0 then
            ends = ends - now % length
          end
        end
        used = used + cost
        if used < 4294967296 then
          value = struct.pack('>BBI8BI4BI8', 4, 207, ends, 206, used, 207, now) .. numbers
        else
          value = struct.pack('>BBI8', 4, 207, ends) .. cmsgpack.pack(used, now) .. numbers
        end
        if keep then
          call('SET', key, value, 'KEEPTTL')
        else
          local micros = ends - now + now % 1000 + 20999
          local ms = string.format('%d', micros / 1000)
          call('SET', key, value, 'PX', ms)
        end
        return value
      end
      if denied == 0 and member == '' then
        return struct.pack('>BI8B', 207, now, 0) .. (raw or '')
      end
    end
  end
end
