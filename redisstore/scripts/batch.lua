-- Decides several requests as one: all are charged, or none is. KEYS: the states'
-- and the bans' keys, each once. ARGV[1]: a list for each request: the limit's numbers,
-- the request, flags (1 peek, 2 shadow), the index of its key, that of its ban's key
-- (0 for none), and the ban's terms: after, within, for. Replies with the server's
-- time, whether all pass, and for each request the view it was decided upon, with
-- the ban's end and count as they were then.
local raws = redis.call('MGET', unpack(KEYS))
local places, bans, requests = {}, {}, {}
local replies = {}

-- state returns what is kept at a place as a request sees it, and whether it was
-- kept under other numbers. s is the state of the place, nil as it is in the server.
local function state(place, r, s)
  if s == nil then
    s = place.loaded[r.kind]
    if s == nil then
      s = kinds[r.kind].load(place.key, place.raw, now) or false
      place.loaded[r.kind] = s
    end
  end
  if not s or s.p[1] ~= r.kind then
    return kinds[r.kind].fresh(r.p), false
  end
  if differs(s.p, r.p) then
    return kinds[r.kind].convert(s, r.p, now), true
  end
  return s, false
end

-- settled returns the end and the count of a request's ban; one that ends so far
-- ahead that the clock must have been set back is moved to the new time.
local function settled(r)
  local ban = r.ban
  local lasts = ban.count > 0 and r.within or r.lasts
  if ban.till - now > 2 * lasts then
    return now + lasts, ban.count
  end
  return ban.till, ban.count
end

-- keep writes the state of a request's ban.
local function keep(r, till, count)
  local ban = r.ban
  if till ~= ban.till or count ~= ban.count then
    ban.till, ban.count, ban.moved = till, count, true
  end
end

-- banned reports whether a ban is in force.
local function banned(till, count)
  return count == 0 and till > now
end

-- denied counts a denial.
local function denied(r)
  if r.ban == nil then
    return
  end
  local till, count = settled(r)
  if not banned(till, count) then
    if now >= till then
      till, count = now + r.within, 0
    end
    count = count + 1
    if count >= r.after then
      till, count = now + r.lasts, 0
    end
  end
  keep(r, till, count)
end

-- take decides a request for good, on its own.
local function take(r)
  local s, converted = state(r.place, r, r.place.now)
  r.view = kinds[r.kind].view(s, r.q, now)
  if r.ban ~= nil then
    r.till, r.count = settled(r)
    if not r.peek then
      keep(r, r.till, r.count)
    end
    if banned(r.till, r.count) then
      return
    end
  end
  local allowed, after = kinds[r.kind].decide(s, r.q, now)
  if r.peek then
    return
  end
  if after ~= s and (not converted or r.q[1] > 0) or converted and r.q[1] > 0 then
    r.place.now = after
  end
  if not allowed then
    denied(r)
  end
end

for i, given in ipairs(cmsgpack.unpack(ARGV[1])) do
  local p, q, flags, key, ban, after, within, lasts = unpack(given)
  local r = { p = p, q = q }
  r.kind, r.peek, r.shadow = r.p[1], flags % 2 == 1, flags >= 2
  local place = places[key]
  if place == nil then
    place = { key = KEYS[key], raw = raws[key], loaded = {}, asked = 0 }
    places[key] = place
  end
  place.asked = place.asked + 1
  r.place = place
  if ban > 0 then
    if bans[ban] == nil then
      local b = { key = KEYS[ban], till = 0, count = 0 }
      if raws[ban] then
        b.till, b.count = cmsgpack.unpack(raws[ban])
      end
      bans[ban] = b
    end
    r.ban, r.after, r.within, r.lasts = bans[ban], after, within, lasts
  end
  requests[i] = r
end

-- What each would be answered if those before it had been charged.
local all = true
for _, r in ipairs(requests) do
  if not r.shadow then
    local place = r.place
    local s, converted = state(place, r, place.tried)
    local allowed, after = kinds[r.kind].decide(s, r.q, now)
    r.view = kinds[r.kind].view(s, r.q, now)
    if not r.peek and r.q[1] > 0 and (after ~= s or converted) then
      place.tried = after
    end
    if r.ban ~= nil then
      r.till, r.count = settled(r)
      allowed = allowed and not banned(r.till, r.count)
    end
    r.allowed = allowed
    all = all and allowed
  end
end

if all then
  for _, place in pairs(places) do
    place.now = place.tried
  end
  for _, r in ipairs(requests) do
    if r.ban ~= nil and not r.shadow and not r.peek and r.q[1] > 0 then
      keep(r, r.till, r.count)
    end
  end
else
  for _, r in ipairs(requests) do
    if not r.shadow and not r.peek and not r.allowed then
      local alone = false
      if r.place.asked > 1 and not (r.ban ~= nil and banned(settled(r))) then
        local s = state(r.place, r, r.place.now)
        alone = kinds[r.kind].decide(s, r.q, now)
      end
      if alone then
        denied(r) -- only for what those before it would have taken
      else
        local view, till, count = r.view, r.till, r.count
        take(r)
        r.view, r.till, r.count = view, till, count
      end
    end
  end
end
for _, r in ipairs(requests) do
  if r.shadow then
    take(r)
  end
end

for _, place in pairs(places) do
  if place.now ~= nil then
    local kind = kinds[place.now.p[1]]
    kind.save(place.key, place.now, now)
  end
end
for _, ban in pairs(bans) do
  if ban.moved then
    local value = cmsgpack.pack(ban.till, ban.count)
    redis.call('SET', ban.key, value, 'PX', px(ban.till - now, now))
  end
end

for i, r in ipairs(requests) do
  replies[i] = r.ban and { r.view, r.till, r.count } or r.view
end
return cmsgpack.pack(now, all and 1 or 0, replies)
