-- Deletes states and bans. KEYS: theirs. Replies with how many there were.
return cmsgpack.pack(redis.call('DEL', unpack(KEYS)))
