-- Reads and writes four states in as few commands as can be, and decides
-- nothing.
--
-- KEYS: the states. ARGV: what to write, and milliseconds to live.
-- Replies: the first state before.
local states = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[4], ARGV[1], 'PX', ARGV[2])
return states[1]
