-- Decides one request. KEYS: the state's key. ARGV: the limit's numbers; the request; 1
-- to peek; the overdraft, if any. Without a second, the request is for one unit and nothing else. Replies with the server's time, whether the request passes, and
-- the view.
local key, p, q = KEYS[1], { cmsgpack.unpack(ARGV[1]) }, { cmsgpack.unpack(ARGV[2] or '\1\0\0\160') }
local kind = kinds[p[1]]

local s = loaded(p, key) or kind.fresh(p)
local held, reserved, larger = nil, 0, false
if s.escrow then
  s, held = (escrow or foreign)(foreign).open(kind, s, p, now, q)
  reserved, larger = held.hold.weight(held, p)
  reserved = reserved - (ARGV[4] and cmsgpack.unpack(ARGV[4]) or 0)
end
local t = under(kind, s, p, now)
local allowed, after, text
if reserved > 0 then
  allowed, after, text = held.hold.decide(kind, s, t, q, now, reserved)
else
  allowed, after = kind.decide(t, q, now)
  text = view(kind, s, t, q, now)
end
if ARGV[3] ~= '1' then
  local admitted = held and held.hold.admitted or written
  local new, booked = admitted(kind, s, t, q, now, allowed, after, larger)
  if new then
    if booked and reserved <= 0 then -- the decision is computed from the state with the debt
      local t = under(kind, new, p, now)
      if not passes_undebited(kind, t, q, now) then
        text = view(kind, new, t, q, now)
      end
    end
    if held and (allowed or booked) and q[3] >= 0 then -- with less, the process is a holder
      held.hold.note(held, now)
    end
    save(kind, key, new, now, held)
  end
end
return struct.pack('>BI8B', 207, now, allowed and 1 or 0) .. text
