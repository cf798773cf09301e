-- Decides one request. KEYS: the state's key. ARGV: the limit's numbers; the request; 1
-- to peek. Replies with the server's time, whether the request passes, and the view.
local key, p, q = KEYS[1], { cmsgpack.unpack(ARGV[1]) }, { cmsgpack.unpack(ARGV[2]) }
local kind = kinds[p[1]]

local s = loaded(p, key) or kind.fresh(p)
local t, converted = under(kind, s, p, now)
local allowed, after = kind.decide(t, q, now)
local text = view(kind, s, t, q, now)
if ARGV[3] ~= '1' and moves(t, converted, q[1], allowed, after) then
  save(kind, key, after, now)
end
return struct.pack('>BI8B', 207, now, allowed and 1 or 0) .. text
