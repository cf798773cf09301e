-- Decides one request. KEYS: the state's key. ARGV: the limit's numbers; the request; 1
-- to peek; the overdraft, if any. Without a second, the request is for one unit and nothing else. Replies with the server's time, whether the request passes, and
-- the view.
local key, p, q = KEYS[1], { cmsgpack.unpack(ARGV[1]) }, { cmsgpack.unpack(ARGV[2] or '\1\0\0\160') }
local kind = kinds[p[1]]

local s = loaded(p, key) or kind.fresh(p)
local held, reserved = nil, 0
if s.escrow then
  s, held = (escrow or foreign)(foreign).open(kind, s, now, q)
  reserved = held.units - (ARGV[4] and cmsgpack.unpack(ARGV[4]) or 0)
end
local t, converted = under(kind, s, p, now)
local allowed, after, text
if reserved > 0 then
  allowed, after, text = held.hold.decide(kind, t, q, now, reserved)
else
  allowed, after = kind.decide(t, q, now)
  text = view(kind, s, t, q, now)
end
if ARGV[3] ~= '1' and moves(t, converted, q[1], allowed, after) then
  save(kind, key, after, now, held)
end
return struct.pack('>BI8B', 207, now, allowed and 1 or 0) .. text
