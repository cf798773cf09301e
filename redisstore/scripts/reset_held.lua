-- Deletes the state of a key that processes may hold units of, and its ban. KEYS: the keys of the
-- state and of the ban. ARGV[1]: the limit's numbers. The units that processes hold stay in
-- escrow. Replies with how many keys there were.
local key, p = KEYS[1], { cmsgpack.unpack(ARGV[1]) }
local kind = kinds[p[1]]

-- held returns the state at the key, and the processes that hold units.
local function held()
  local s = loaded(p, key)
  if s and s.escrow then
    return escrow(foreign).open(kind, s, s.p, now) -- what has expired is forgotten with the rest
  end
end

local read, s, holders = pcall(held)
local count = redis.call('DEL', unpack(KEYS))
if read and holders and holders.holders ~= '' then
  save(kind, key, kind.fresh(s.p), now, holders)
end
return cmsgpack.pack(count)
