-- Bans a key by hand, or lifts its ban. KEYS: the ban's. ARGV[1]: the ban's length in
-- microseconds, 0 to lift it. Replies with the server's time, and whether a ban was in
-- force. The text at the key has the form of batch.lua: the end, no denials, the level of
-- a ban by hand, and the length in seconds.
local key, length = KEYS[1], cmsgpack.unpack(ARGV[1])
local raw, found = redis.call('GET', key), 0
if raw then
  local till, count = cmsgpack.unpack(raw)
  if count == 0 and till > now then
    found = 1
  end
end
if length > 0 then
  local value = cmsgpack.pack(now + length, 0, 31, math.ceil(length / 1000000))
  local ms = px(length, now)
  redis.call('SET', key, value, 'PX', ms)
elseif raw then
  redis.call('DEL', key)
end
return cmsgpack.pack(now, found)
