-- Ends a reservation or a lease. KEYS: the state's key. ARGV: the numbers of the
-- charge's limit; the charge; 1 to cancel, 2 to settle, 3 to release, 4 to undo what
-- nobody has acted upon, and the actual cost or the latency. Replies with the server's
-- time and, of a release, whether there was such a lease.
local key, p, c = KEYS[1], { cmsgpack.unpack(ARGV[1]) }, { cmsgpack.unpack(ARGV[2]) }
local what, number = cmsgpack.unpack(ARGV[3])
local kind = kinds[p[1]]

local s = loaded(kind, key, now)
if s == nil then
  s = kind.fresh(p)
elseif differs(s.p, p) then
  if kind.isfresh(s, now) then
    s = kind.convert(s, p, now)
  elseif kind.charge then
    c = kind.charge(c, p, s.p, now)
  end
end

local found, after = true, s
if what == 1 then
  after = kind.cancel(s, c, now)
elseif what == 2 or what == 4 and not kind.undo then
  after = kind.settle(s, c, number, now)
elseif what == 4 then
  after = kind.undo(s, c, now)
else
  found, after = kind.release(s, c, number, now)
end
if after ~= s then
  kind.save(key, after, now)
end
return cmsgpack.pack(now, found and 1 or 0)
