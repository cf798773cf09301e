-- Keeps records, or removes them. KEYS: the meta text, the log, the ends, then one key for each record. ARGV[1]: a new
-- epoch, used if there is none; ARGV[2]: for how long removals are kept, in microseconds; then for each record its text, its
-- end in microseconds, its member in the log, and the text that it must replace: - for none, empty for any. If one has another text,
-- nothing changes, and the reply is "changed". An end is a time, + and the time until then, or 0 for none. A text begins
-- with + for a record and - for a removal. Replies with one digit for each: 1 if there was a record. The meta text has the
-- epoch, the number of the last change, and the number of the latest change that the log has dropped.
for i = 4, #KEYS do
  local was, before = ARGV[4 * i - 10], redis.call('GET', KEYS[i])
  if was == '-' and before and before:sub(1, 1) == '+' or #was > 1 and was ~= before then
    return 'changed'
  end
end
local meta, log, ends = KEYS[1], KEYS[2], KEYS[3]
local epoch, last, floor = ARGV[1], 0, 0
local raw = redis.call('GET', meta)
if raw then
  epoch, last, floor = cmsgpack.unpack(raw)
end
last = math.max(last, now)
local over = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 200)
for i = 1, #over do
  floor = math.max(floor, tonumber(redis.call('ZSCORE', log, over[i]) or 0))
end
if #over > 0 then
  redis.call('ZREM', log, unpack(over))
  redis.call('ZREM', ends, unpack(over))
end
local found = {}
for i = 1, #KEYS - 3 do
  local key, text, till, member = KEYS[i + 3], ARGV[4 * i - 1], tonumber(ARGV[4 * i]), ARGV[4 * i + 1]
  if ARGV[4 * i]:sub(1, 1) == '+' then
    till = till + now
  end
  local before = redis.call('GET', key)
  found[i] = before and before:sub(1, 1) == '+' and '1' or '0'
  if text:sub(1, 1) == '-' then
    till = now + ARGV[2]
  end
  if till > 0 then
    redis.call('SET', key, text, 'PX', string.format('%.0f', math.max(1, math.ceil((till - now) / 1000))))
    redis.call('ZADD', ends, string.format('%.0f', till), member)
  else
    redis.call('SET', key, text)
    redis.call('ZREM', ends, member)
  end
  last = last + 1
  redis.call('ZADD', log, string.format('%.0f', last), member)
end
redis.call('SET', meta, cmsgpack.pack(epoch, last, floor))
return table.concat(found)
