-- Decides several requests as one: all are charged, or none is. KEYS: the keys of states and of
-- bans, each once. ARGV[1]: a list for each request. It has the limit's numbers, the request, and
-- flags (1 peek, 2 shadow, and 4 times the overdraft). Then come the indexes of its state's key and of its ban's key (0 for
-- none), and the ban's terms. A batch of plain requests has no lists but a few values for each key:
-- the last two are the cost and the limit's numbers. See batch_quick.lua, and batch_windows.lua for fixed windows. ARGV[2] is
-- empty if all of them are shadows, and D if all are debits. If a limit has an overdraft, the lists are in ARGV[2] then. The terms are after, within, forget, 1 to prolong it, and the
-- lengths of the first ban and of later ones. A request with a hold has more: the index of the key of its holds, how long it
-- lasts, and its identity. Replies with the server's time, and whether all
-- pass. For each request it also replies with the view that the request was decided upon, and the
-- ban at that time.
local raws

-- text returns the string at a key, false if there is no key. MGET does not distinguish a key
-- that holds something else; GET ends the script then.
local function text(i)
  return raws[i] or redis.call('GET', KEYS[i])
end

local entries, bans, requests, hold = {}, {}, {}, nil
local replies = {}

-- state returns the state of an entry as a request sees it, and as it was kept. s is the state so far, nil for the state that the
-- server has.
local function state(entry, r, s)
  s = s or entry.kept or entry.kind.fresh(r.p)
  return under(entry.kind, s, r.p, now), s
end

-- A ban is a table that nobody changes after it was returned. It has the ban's end, the denials
-- that count, the level, and when the level is forgotten. See algo.Ban.
local BY_HAND = 31

-- length_of returns how long a ban of some level lasts by some terms.
local function length_of(terms, level)
  return terms[4 + max(1, min(level, #terms - 4))]
end

-- banned reports whether a ban is in force.
local function banned(ban)
  return ban[2] == 0 and ban[1] > now
end

-- current returns the ban of a request. If its end is so far ahead that the clock must
-- have been set back, the ban moves to the new time.
local function current(r)
  local ban = r.ban.now
  if ban[1] <= now then
    return ban
  end
  local length = length_of(r.terms, ban[3])
  if ban[2] > 0 then
    length = r.terms[2]
  elseif ban[3] == BY_HAND then
    length = ban[4] * 1000000
  end
  if ban[1] - now > 2 * length then
    return { now + length, ban[2], ban[3], ban[4] }
  end
  return ban
end

-- attempted returns a ban after it refused a request.
local function attempted(ban, terms)
  if terms[4] == 1 and ban[3] ~= BY_HAND then
    local till = now + length_of(terms, ban[3])
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
  local ban, terms = current(r), r.terms
  if terms[1] > 0 and not banned(ban) then
    local till, count, level, forget = unpack(ban)
    if level == BY_HAND or now >= till + forget * 1000000 then
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
      till = now + length_of(terms, level)
    end
    ban = { till, count, level, forget }
  end
  r.ban.now = ban
end

-- reserved_of returns what the escrow of a request's key takes from it, and whether units of a larger capacity are in it.
local function reserved_of(r)
  local held = r.entry.held
  if not held then
    return 0, false
  end
  local weight, larger = held.hold.weight(held, r.p)
  return weight - r.overdraft, larger
end

-- charged is written, beside what processes hold of the key.
local function charged(r, s, t, allowed, after)
  local held, kind = r.entry.held, r.entry.kind
  if held then
    local _, larger = reserved_of(r)
    return held.hold.admitted(kind, s, t, r.q, now, allowed, after, larger)
  end
  return written(kind, s, t, r.q, now, allowed, after)
end

-- decide decides a request upon a state, which was kept as another one, and sets its view. It
-- returns whether the request passes, and the state after. A refused request has only a view.
local function decide(r, s, kept, refused)
  local entry, q, allowed, after = r.entry, r.q, nil, nil
  local kind, reserved = entry.kind, reserved_of(r)
  if reserved > 0 then
    allowed, after, r.view = entry.held.hold.decide(kind, kept, s, q, now, reserved)
    return allowed, after
  end
  r.view = view(kind, kept, s, q, now)
  if not refused then
    return kind.decide(s, q, now)
  end
end

-- take decides a request on its own, for good.
local function take(r)
  local entry = r.entry
  local s, kept = state(entry, r, entry.now)
  local refused = false
  if r.ban ~= nil then
    local ban = current(r)
    r.seen = ban
    refused = banned(ban)
    if refused then
      ban = attempted(ban, r.terms)
    end
    if not r.peek then
      r.ban.now = ban
    end
  end
  local allowed, after = decide(r, s, kept, refused and not r.debit)
  if refused and not r.debit or r.peek then
    return false
  end
  local new, booked = charged(r, kept, s, allowed, after)
  entry.now = new or entry.now
  if refused or booked and reserved_of(r) <= 0 then
    -- The decision is computed from the state with the debt.
    local t, after_it = state(entry, r, entry.now)
    if refused or not passes_undebited(entry.kind, t, r.q, now) then
      decide(r, t, after_it, true)
    end
  end
  if not (allowed or refused) then
    denied(r)
  end
  return allowed and not refused
end

local more, flagged, member = ARGV[2], 0, ''
if more == '' then
  more, flagged = nil, 2
elseif more == DEBIT then
  more, member = nil, DEBIT
end
local list = { cmsgpack.unpack(more or ARGV[1]) }
if type(list[1]) == 'table' then
  list = list[1]
elseif list[1] == false then -- of batch_windows.lua
  local groups = list
  list = {}
  for j = 2, #groups, 6 do
    local numbers = { cmsgpack.unpack(groups[j + 5]) }
    for _ = 1, groups[j] do
      local i = #list + 1
      list[i] = { numbers, { groups[j + 4], 0, 0, member }, 0, i, 0 }
    end
  end
else
  local values, width = list, #list / #KEYS
  list = {}
  for i = 1, #KEYS do
    local numbers = { cmsgpack.unpack(values[width * i]) }
    list[i] = { numbers, { values[width * i - 1], 0, 0, member }, flagged, i, 0 }
  end
end
for _, given in ipairs(list) do
  local hold = given[7]
  if hold then
    give_back_due(kinds[given[1][1]], given[1], KEYS[given[4]], KEYS[hold[1]], given[2])
  end
end
raws = redis.call('MGET', unpack(KEYS))
for i, given in ipairs(list) do
  local p, q, flags, key, ban, terms = unpack(given, 1, 6)
  local r = { p = p, q = q, peek = flags % 2 == 1, shadow = flags % 4 >= 2, overdraft = floor(flags / 4) }
  r.debit, r.held = q[4] == DEBIT and q[1] > 0, given[7]
  local entry = entries[key]
  if entry == nil then
    local kind = kinds[p[1]]
    entry = { key = KEYS[key], kind = kind, requests = 0 }
    if kind.load then
      entry.kept = kind.load(KEYS[key])
    else
      entry.kept = parsed(p, text(key))
    end
    if entry.kept and entry.kept.escrow then
      hold = hold or (escrow or foreign)(foreign)
      entry.kept, entry.held = hold.open(kind, entry.kept, r.p, now, q)
    end
    entries[key] = entry
  end
  entry.requests = entry.requests + 1
  entry.others = entry.others or q[3] >= 0 and q[1] > 0 and not r.peek
  r.entry = entry
  if ban > 0 then
    if bans[ban] == nil then
      local b = { key = KEYS[ban], kept = { 0, 0, 0, 0 } }
      local raw = text(ban)
      if raw then
        b.kept = { cmsgpack.unpack(raw) }
      end
      b.now = b.kept
      bans[ban] = b
    end
    r.ban, r.terms = bans[ban], terms
  end
  requests[i] = r
end

-- Charge the debits. Then decide each other request as if the requests before it had been charged.
local all = true
for _, r in ipairs(requests) do
  if r.debit and not r.shadow then
    r.allowed = take(r)
    r.entry.tried = r.entry.now
    all = all and r.allowed
  end
end
for _, r in ipairs(requests) do
  if not (r.shadow or r.debit) then
    local entry = r.entry
    local s, kept = state(entry, r, entry.tried)
    local allowed, after = decide(r, s, kept)
    if not r.peek and r.q[1] > 0 then
      entry.tried = charged(r, kept, s, allowed, after) or entry.tried
    end
    if r.ban ~= nil then
      r.seen = current(r)
      allowed = allowed and not banned(r.seen)
    end
    r.allowed = allowed
    all = all and allowed
  end
end

if all then
  for _, entry in pairs(entries) do
    entry.now = entry.tried
  end
  for _, r in ipairs(requests) do
    if r.ban ~= nil and not (r.shadow or r.debit or r.peek) and r.q[1] > 0 then
      r.ban.now = r.seen
    end
  end
else
  -- Nothing is charged, so the others pass upon the states as they are.
  for _, r in ipairs(requests) do
    if not (r.shadow or r.debit) and r.allowed and r.entry.requests > 1 then
      local s, kept = state(r.entry, r, r.entry.now)
      decide(r, s, kept, true)
    end
  end
  for _, r in ipairs(requests) do
    if not (r.shadow or r.debit or r.peek) and not r.allowed then
      local alone = false
      if r.entry.requests > 1 and not (r.ban ~= nil and banned(current(r))) then
        local s, kept = state(r.entry, r, r.entry.now)
        local text = r.view
        alone = decide(r, s, kept)
        r.view = text
      end
      if alone then
        denied(r) -- only because of the units that earlier requests would have taken
      else
        local text, seen = r.view, r.seen
        take(r)
        r.view, r.seen = text, seen
      end
    end
  end
end
for _, r in ipairs(requests) do
  if r.shadow then
    r.allowed = take(r)
  end
end

for _, entry in pairs(entries) do
  if entry.now ~= nil then
    if entry.held and entry.others then
      entry.held.hold.note(entry.held, now)
    end
    save(entry.kind, entry.key, entry.now, now, entry.held)
  end
end
for _, b in pairs(bans) do
  local ban = b.now
  if differs(ban, b.kept) then
    local value, left = cmsgpack.pack(unpack(ban)), ban[1] - now
    if ban[3] ~= BY_HAND then
      left = left + ban[4] * 1000000
    end
    local ms = px(left, now)
    redis.call('SET', b.key, value, 'PX', ms)
  end
end

for i, r in ipairs(requests) do
  if r.held and r.allowed and (all or r.shadow) and r.q[1] > 0 and not r.peek then
    local holds, length, id = unpack(r.held)
    local kind, s = r.entry.kind, r.entry.now
    keep_hold(KEYS[holds], id, r.q[1], length, kind.left and kind.left(s, now) or r.p[3])
  end
  replies[i] = r.ban and { r.view, unpack(r.seen) } or r.view
end
return cmsgpack.pack(now, all and 1 or 0, replies)
