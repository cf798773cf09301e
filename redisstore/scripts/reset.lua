-- Deletes states and bans. KEYS: the keys of the states and of the bans.
-- Replies with how many there were.
return cmsgpack.pack(redis.call('DEL', unpack(KEYS)))
