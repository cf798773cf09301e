-- Reads bans. KEYS: the bans' keys. Replies with the server's time and the text at each
-- key, '' if there is none.
local raws = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  raws[i] = raws[i] or ''
end
return cmsgpack.pack(now, raws)
