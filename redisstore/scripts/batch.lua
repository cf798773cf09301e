-- Decides several requests as one: all are charged, or none is. KEYS: the states'
-- and the bans' keys, each once. ARGV[1]: a list for each request: the limit's numbers,
-- the request, flags (1 peek, 2 shadow), the index of its key, that of its ban's key
-- (0 for none) and its terms: after, within, forget, 1 to prolong it, and how long the
-- first ban lasts and those after it. Replies with the server's time, whether all pass,
-- and for each request the view it was decided upon, with the ban as it was then.
local raws = redis.call('MGET', unpack(KEYS))
local places, bans, requests = {}, {}, {}
local replies = {}

-- state returns what is kept at a place as a request sees it, and whether it was
-- kept under other numbers. s is the state of the place, nil as it is in the server.
local function state(place, r, s)
  s = s or place.kept
  if s == nil then
    return place.kind.fresh(r.p), false
  end
  if differs(s.p, r.p) then
    return place.kind.convert(s, r.p, now), true
  end
  return s, false
end

-- A ban is a table that is not changed once it has been returned: its end, the denials
-- that count, the level and when that is forgotten. See algo.Ban.
local byhand = 31

-- lasts returns how long a ban of some level lasts by some terms.
local function lasts(terms, level)
  return terms[4 + max(1, min(level, #terms - 4))]
end

-- banned reports whether a ban is in force.
local function banned(ban)
  return ban[2] == 0 and ban[1] > now
end

-- settled returns the ban of a request; one that ends so far ahead that the clock must
-- have been set back is moved to the new time.
local function settled(r)
  local ban = r.ban.now
  if ban[1] <= now then
    return ban
  end
  local length = lasts(r.terms, ban[3])
  if ban[2] > 0 then
    length = r.terms[2]
  elseif ban[3] == byhand then
    length = ban[4] * 1000000
  end
  if ban[1] - now > 2 * length then
    return { now + length, ban[2], ban[3], ban[4] }
  end
  return ban
end

-- attempted returns the ban of a request that it refuses.
local function attempted(ban, terms)
  if terms[4] == 1 and ban[3] ~= byhand then
    local till = now + lasts(terms, ban[3])
    if till > ban[1] then
      return { till, ban[2], ban[3], ban[4] }
    end
  end
  return ban
end

-- denied counts a denial.
local function denied(r)
  if r.ban == nil then
    return
  end
  local ban, terms = settled(r), r.terms
  if terms[1] > 0 and not banned(ban) then
    local till, count, level, forget = unpack(ban)
    if level == byhand or now >= till + forget * 1000000 then
      level, forget = 0, 0
    end
    if now >= till then
      till, count = now + terms[2], 0
    end
    count = count + 1
    if count >= terms[1] then
      count = 0
      if #terms > 5 then
        level, forget = min(level, #terms - 5) + 1, terms[3]
      else
        level, forget = 0, 0
      end
      till = now + lasts(terms, level)
    end
    ban = { till, count, level, forget }
  end
  r.ban.now = ban
end

-- take decides a request for good, on its own.
local function take(r)
  local s, converted = state(r.place, r, r.place.now)
  r.view = r.place.kind.view(s, r.q, now)
  if r.ban ~= nil then
    local ban = settled(r)
    r.seen = ban
    local refused = banned(ban)
    if refused then
      ban = attempted(ban, r.terms)
    end
    if not r.peek then
      r.ban.now = ban
    end
    if refused then
      return
    end
  end
  local allowed, after = r.place.kind.decide(s, r.q, now)
  if r.peek then
    return
  end
  if not converted and after ~= s or r.q[1] > 0 and converted and (allowed or not s.restamped) then
    r.place.now = after
  end
  if not allowed then
    denied(r)
  end
end

for i, given in ipairs(cmsgpack.unpack(ARGV[1])) do
  local p, q, flags, key, ban, terms = unpack(given)
  local r = { p = p, q = q, peek = flags % 2 == 1, shadow = flags >= 2 }
  local place = places[key]
  if place == nil then
    local kind = kinds[p[1]]
    place = { key = KEYS[key], kind = kind, kept = kind.load(KEYS[key], raws[key], now), asked = 0 }
    places[key] = place
  end
  place.asked = place.asked + 1
  r.place = place
  if ban > 0 then
    if bans[ban] == nil then
      local b = { key = KEYS[ban], kept = { 0, 0, 0, 0 } }
      if raws[ban] then
        b.kept = { cmsgpack.unpack(raws[ban]) }
      end
      b.now = b.kept
      bans[ban] = b
    end
    r.ban, r.terms = bans[ban], terms
  end
  requests[i] = r
end

-- What each would be answered if those before it had been charged.
local all = true
for _, r in ipairs(requests) do
  if not r.shadow then
    local place = r.place
    local s, converted = state(place, r, place.tried)
    local allowed, after = place.kind.decide(s, r.q, now)
    r.view = place.kind.view(s, r.q, now)
    if not r.peek and r.q[1] > 0 and (not converted and after ~= s or converted and (allowed or not s.restamped)) then
      place.tried = after
    end
    if r.ban ~= nil then
      r.seen = settled(r)
      allowed = allowed and not banned(r.seen)
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
      r.ban.now = r.seen
    end
  end
else
  for _, r in ipairs(requests) do
    if not r.shadow and not r.peek and not r.allowed then
      local alone = false
      if r.place.asked > 1 and not (r.ban ~= nil and banned(settled(r))) then
        local s = state(r.place, r, r.place.now)
        alone = r.place.kind.decide(s, r.q, now)
      end
      if alone then
        denied(r) -- only for what those before it would have taken
      else
        local view, seen = r.view, r.seen
        take(r)
        r.view, r.seen = view, seen
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
    place.kind.save(place.key, place.now, now)
  end
end
for _, b in pairs(bans) do
  local ban = b.now
  if differs(ban, b.kept) then
    local value, left = cmsgpack.pack(unpack(ban)), ban[1] - now
    if ban[3] ~= byhand then
      left = left + ban[4] * 1000000
    end
    redis.call('SET', b.key, value, 'PX', px(left, now))
  end
end

for i, r in ipairs(requests) do
  replies[i] = r.ban and { r.view, unpack(r.seen) } or r.view
end
return cmsgpack.pack(now, all and 1 or 0, replies)
