-- Decides one request. KEYS: the state's key. ARGV: the limit's numbers; the
-- request; 1 to peek. Replies with the server's time, whether it passes, and the view.
local key, p, q = KEYS[1], { cmsgpack.unpack(ARGV[1]) }, { cmsgpack.unpack(ARGV[2]) }
local kind = kinds[p[1]]

local s = loaded(kind, key, now) or kind.fresh(p)
local converted = differs(s.p, p)
if converted then
  s = kind.convert(s, p, now)
end

local allowed, after = kind.decide(s, q, now)
local view = kind.view(s, q, now)
if ARGV[3] ~= '1' and (not converted and after ~= s or q[1] > 0 and converted and (allowed or not s.restamped)) then
  kind.save(key, after, now)
end
return struct.pack('>BI8B', 207, now, allowed and 1 or 0) .. view
