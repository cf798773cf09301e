-- What processes hold of a key. Units that were granted and not yet reported are the escrow of
-- the key. All holders are in one text, which follows the limit's numbers in the text of a state:
--
--   a header: 2, units in escrow, demand, first, last, at, active, most
--   for each holder: its identity, the last sequence number, birth, units, till, life, demand,
--     flags (1 the request passed, 2 active), time of the answer, units granted by it, and the capacity
--     that its units were granted from, the least if there are several
--
-- The identity 0 is of all processes that are not in the list: see note.
--
-- An entry stays until every till that an answer has named, so that a claim which comes again is known. This
-- is the time of its last answer plus its life. Its units end at its own till, which may be earlier.
--
-- The header has sums over the holders, so that a decision reads no more than the header. An
-- active holder has units, or wants some. first is at most the earliest till, and last is at
-- least the latest end of an entry. at is when the text was written: no till is later than at plus the
-- life of its holder. most is at least the largest capacity that units were granted from.
--
-- escrow makes the functions that a script needs for a key with holders. Most runs of a script
-- need none of them, so that this costs little: one function, which refers to few variables.
escrow = function(foreign)
  local HEADER, HEADER_SIZE = '>BI7I7I7I7I7I2I7', 45
  local HOLDER, HOLDER_SIZE = '>c8I7I7I7I7I4I5BI7I7I7', 67
  local BUCKET, WINDOW, CELLS, COUNTER, LOG = 1, 4, 5, 6, 7
  local OPENED = 1 -- of the forms of windows
  local exact, most = 9007199254740992, 250
  local floor, max, min, sub = math.floor, math.max, math.min, string.sub
  local hold = { most = most, holder = HOLDER, size = HOLDER_SIZE }

  -- charged returns the state after a charge at a time, whether or not there is room. To the
  -- depth of its floor there is room for any charge. The result counts from that time, so that
  -- its fields show what was used.
  local function charged(kind, s, units, at, q)
    local _, after = kind.decide(s, { units, -2 * exact, 0, '', unpack(q, 5) }, at)
    return after
  end

  -- resolve completes the state of a window that was converted to a calendar.
  local function resolve(kind, s, now, q)
    if s.p[1] == WINDOW and s.at then
      kind.decide(s, { 0, 0, 0, '', unpack(q, 5) }, now)
    end
  end

  -- What a state has left, from the state after a charge of one unit now.
  local left_of = {
    [BUCKET] = function(p, t)
      return p[4] - (t.u - 1) - (t.f > 0 and 1 or 0)
    end,
    [WINDOW] = function(p, t)
      return p[2] - (t.used - 1)
    end,
    [CELLS] = function(p, t)
      local units = -1
      for _, n in ipairs(t.cells) do
        units = units + n
      end
      return p[2] - units
    end,
    [COUNTER] = function(p, t, now)
      local length = p[3]
      local into = max(now, t.index * length) - t.index * length
      local units, rest = muldiv(t.prev, length - into, length)
      return p[2] - units - (rest > 0 and 1 or 0) - (t.cur - 1)
    end,
    [LOG] = function(p, t)
      return p[2] - (t.total - t.base - 1)
    end,
  }

  -- room returns the capacity less what is used, rounded down.
  local function room(kind, s, now, q)
    return left_of[s.p[1]](s.p, charged(kind, s, 1, now, q), now)
  end

  -- time_of returns the time that a state counts from.
  local function time_of(s)
    local p = s.p
    if p[1] == BUCKET then
      return s.at
    elseif p[1] == WINDOW then
      return s.begins
    elseif p[1] == CELLS then
      return s.newest * p[3] / p[4]
    elseif p[1] == COUNTER then
      return s.index * p[3]
    end
    return s.last or 0
  end

  -- book returns the state after a charge of so many units at a time: now, or in a moment before
  -- at which they have expired. If the clock was set back, the state may have a later time.
  local function book(kind, s, units, at, now, q)
    resolve(kind, s, now, q)
    if units == 0 then
      return s
    end
    units = min(units, exact) -- a sum of what was lost and reported may be more
    local p = s.p
    if at < now then
      at = max(at, min(time_of(s), now))
      -- Nothing is left of units that were used before the period of a calendar.
      if p[1] == WINDOW and p[4] > OPENED and at >= s.ends and at < charged(kind, kind.fresh(p), 1, now, q).begins then
        return s
      end
    end
    local t = charged(kind, s, units, at, q)
    if p[1] == BUCKET then -- a level has a bound
      local u, f = muldiv(2147483648, 2147483648, p[3])
      u = min(u, exact - 1)
      if t.u > u or t.u == u and t.f > f then
        t.u, t.f = u, f
      end
    end
    return t
  end

  -- booked is book under the numbers that s is kept under, whatever the numbers p of the request.
  -- Only a request of a calendar has its periods: a state that needs a new period of another
  -- calendar takes the numbers p.
  local function booked(kind, s, p, units, at, now, q)
    if s.p[1] == WINDOW and s.p[4] > OPENED and (at >= s.ends or s.begins - at > s.p[3]) and differs(s.p, p) then
      s = kind.convert(s, p, now)
    end
    return book(kind, s, units, at, now, q)
  end

  -- window returns when the current window ends, the state with that window, and whether it is
  -- open. Without a grant or a charge, a window that a request opens stays closed.
  local function window(kind, s, now, q)
    resolve(kind, s, now, q)
    local p, t = s.p, charged(kind, s, 1, now, q)
    if t.ends == s.ends and t.begins == s.begins then
      return s.ends, s, true
    end
    local back = now < s.ends and s.begins - now > p[3]
    t.used = t.used - 1
    return t.ends, t, back or p[4] ~= OPENED
  end

  -- forgotten returns when an entry is dropped. Its answer may have a later time if the clock was set back.
  function hold.forgotten(at, life, till, now)
    return at <= now and max(till, at + life) or till
  end

  -- expired books the units of holders whose time has come, in the last microsecond before. It drops holders
  -- when they are forgotten, and computes the sums again. Without q it books nothing.
  local function expired(kind, s, p, held, now, q)
    local kept, due, moments = {}, {}, {}
    local units, demand, active, earliest, latest, largest = 0, 0, 0, exact, 0, 0
    for i = 1, #held.holders, HOLDER_SIZE do
      local text = sub(held.holders, i, i + HOLDER_SIZE - 1)
      local id, seq, birth, has, till, life, wants, flags, at, granted, of = struct.unpack(HOLDER, text)
      if till > now + life then -- the clock was set back
        till = now + life
        text = struct.pack(HOLDER, id, seq, birth, has, till, life, wants, flags, at, granted, of)
      end
      if till > now then
        largest = has > 0 and max(largest, of) or largest
        kept[#kept + 1] = text
        units, demand = units + has, demand + wants
        earliest, latest = min(earliest, till), max(latest, hold.forgotten(at, life, till, now))
        if flags >= 2 then
          active = active + 1
        end
      else
        if has > 0 and q then
          if not due[till] then
            due[till] = 0
            moments[#moments + 1] = till
          end
          due[till] = due[till] + has
        end
        local ends = hold.forgotten(at, life, till, now)
        if ends > now then
          kept[#kept + 1] = struct.pack(HOLDER, id, seq, birth, 0, till, life, 0, flags % 2, at, granted, of)
          earliest, latest = min(earliest, ends), max(latest, ends)
        end
      end
    end
    table.sort(moments)
    for _, till in ipairs(moments) do
      s = booked(kind, s, p, due[till], till - 1, now, q)
    end
    held.units, held.demand, held.active, held.first, held.last = units, demand, active, earliest, latest
    held.most, held.holders = largest, table.concat(kept)
    return s
  end

  -- open returns a state and its holders as of now, for a request with the numbers p. A state without a text of holders has none.
  function hold.open(kind, s, p, now, q)
    local text = s.escrow
    local held = { hold = hold, units = 0, demand = 0, first = exact, last = 0, active = 0, most = 0, holders = '' }
    if not text then
      return s, held
    end
    local n = (#text - HEADER_SIZE) / HOLDER_SIZE
    if not left_of[s.p[1]] or n < 0 or n > most or n % 1 > 0 then
      foreign()
    end
    local version, at
    version, held.units, held.demand, held.first, held.last, at, held.active, held.most = struct.unpack(HEADER, text)
    if version ~= 2 or max(held.units, held.demand, held.first, held.last, held.most) > exact then
      foreign()
    end
    held.holders = sub(text, HEADER_SIZE + 1)
    if now < at or held.first <= now then
      s = expired(kind, s, p, held, now, q)
    end
    return s, held
  end

  -- appended returns the text of a state with its holders, if any, after it.
  function hold.appended(text, held, now)
    if held.holders == '' then
      return text
    end
    local header = struct.pack(HEADER, 2, held.units, held.demand, held.first, held.last, now, held.active, held.most)
    return text .. cmsgpack.pack(header .. held.holders)
  end

  -- left returns the microseconds until a state that is kept as a string may be deleted.
  function hold.left(kind, s, held, now)
    local last = held.last
    if held.holders == '' then
      return kind.left(s, now)
    elseif held.units == 0 then
      return max(kind.left(s, now), last - now)
    elseif s.p[1] == WINDOW then
      -- Grants end with the window, unless it was another one when they were made.
      return max(s.ends, last > s.ends and last + s.p[3] or last) - now
    end
    return kind.left(book(kind, s, held.units, last, last, {}), now)
  end

  -- capacity returns the units of a limit with the numbers p.
  local function capacity(p)
    return p[1] == BUCKET and p[4] or p[2]
  end

  -- weight returns what the escrow weighs for a request with the numbers p, and whether units were granted from
  -- a larger capacity. Those weigh as the same part of this capacity, rounded up. The entry at an index does not count.
  function hold.weight(held, p, own)
    local all, sum = capacity(p), held.units
    if held.most <= all then
      return sum, false
    end
    local largest = all
    for i = 1, #held.holders, HOLDER_SIZE do
      local _, _, _, has, _, _, _, _, _, _, of = struct.unpack(HOLDER, held.holders, i)
      if has > 0 and of > all and i ~= own then
        local units, by = has * all, of
        if units >= exact then -- a little more
          units, by = has, floor(of / all)
        end
        sum, largest = sum - has + math.ceil(units / by), max(largest, of)
      end
    end
    held.most = largest
    return sum, largest > all
  end

  -- keeps_rate reports whether a bucket with the numbers from refills as fast as one with the numbers p, or faster.
  local function keeps_rate(from, p)
    return p[1] == BUCKET and not less(from[2], p[3], p[2], from[3])
  end

  -- keeps reports whether an admission under the numbers p leaves a state under its own: if it is a bucket that is not
  -- smaller and refills as fast, while units of a larger capacity are in escrow. Otherwise these would be
  -- reported to a bucket that they do not fit, and what it lacks beyond its burst is a debt.
  function hold.keeps(s, p, q, larger)
    return larger and q[3] <= 0 and keeps_rate(s.p, p) and s.p[4] >= p[4] and differs(s.p, p)
  end

  -- seen returns a state with so many units of its escrow booked, and the text that package
  -- redisstore computes a decision from. t is s, which is kept, under the numbers of the request. What is left later
  -- follows from s if that is possible. After the text of a bucket under the numbers of the request come the units booked.
  function hold.seen(kind, s, t, q, now, units)
    if s ~= t and units == 0 then
      return t, view(kind, s, t, q, now)
    elseif s ~= t and keeps_rate(s.p, t.p) and q[3] <= 0 and q[4] ~= DEBIT then
      local b = book(kind, s, units, now, now, q)
      return kind.convert(b, t.p, now), kind.value(b)
    end
    local b = book(kind, t, units, now, now, q)
    local text = kind.view and kind.view(b, q, now, b) or kind.value(b)
    if units > 0 and t.p[1] == BUCKET then
      text = text .. cmsgpack.pack(units)
    end
    return b, text
  end

  -- Where the numbers of a kind say whether denied attempts count.
  local denials = { [WINDOW] = 5, [CELLS] = 5, [COUNTER] = 4, [LOG] = 5 }

  -- decide decides a request beside so many units in escrow. It returns whether the request
  -- passes, the state after, without these units, and the view. t is s under the numbers of the request.
  function hold.decide(kind, s, t, q, now, units)
    local b, text = hold.seen(kind, s, t, q, now, units)
    local allowed = kind.decide(b, q, now)
    local passes, after = kind.decide(t, q, now)
    local counts = denials[t.p[1]]
    if passes and not allowed and q[4] ~= DEBIT and not (counts and t.p[counts] == 1) then
      -- Only the escrow is in the way. A request for more than there can be is denied too.
      q = { exact + 2, unpack(q, 2) }
      passes, after = kind.decide(t, q, now)
    end
    return allowed, after, text
  end

  -- note notes that a request which was decided exactly has taken units, of a process that is not in
  -- the list. All such processes have the first entry of the list, for a second. It answers no claim.
  function hold.note(held, now)
    local life, rest = 1000000, held.holders
    if held.active == 0 then
      return
    elseif sub(rest, 1, 8) == hold.others then
      local _, _, _, _, till = struct.unpack(HOLDER, rest)
      if till - now > life / 2 then
        return
      end
      rest = sub(rest, HOLDER_SIZE + 1)
    elseif #rest >= most * HOLDER_SIZE then
      return
    end
    held.holders = struct.pack(HOLDER, hold.others, 0, 0, 0, now + life, life, 0, 0, 0, 0, 0) .. rest
    held.first, held.last = min(held.first, now + life), max(held.last, now + life)
  end

  -- admitted returns what a decision about t changes the kept state s to, as written does, and whether a debit was booked.
  function hold.admitted(kind, s, t, q, now, allowed, after, larger)
    if allowed and q[1] > 0 and hold.keeps(s, t.p, q, larger) then
      local _, charged = kind.decide(s, q, now)
      return charged
    end
    return written(kind, s, t, q, now, allowed, after)
  end

  hold.room, hold.window, hold.capacity, hold.others = room, window, capacity, string.rep('\0', 8)

  -- booked books units that were used by now.
  function hold.booked(kind, s, p, units, now, q)
    return booked(kind, s, p, units, now, now, q)
  end

  return hold
end
