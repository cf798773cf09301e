-- What processes hold of a key. Units that were granted and not yet reported are the escrow of
-- the key. All holders are in one text, which follows the limit's numbers in the text of a state:
--
--   a header: 1, units in escrow, demand, first, last, at, active
--   for each holder: its identity, the last sequence number, birth, units, till, life, demand,
--     flags (1 the request passed, 2 active), time of the answer, units granted by it
--
-- The header has sums over the holders, so that a decision reads no more than the header. An
-- active holder has units, or wants some. first is at most the earliest till, and last is at
-- least the latest one. at is when the text was written: no till is later than at plus the life
-- of its holder.
--
-- A kind that can be granted has the functions below. All but room may be absent.
--
--   room(s, now, q)     the capacity less what is used, rounded down, and the time of s
--   book(s, units, at, now, q)  the state after a charge of so many units, whether or not there is
--                       room. at is now or earlier, and not before the time of s; or later
--   ends(s, now, q)     when grants must end, the state with the window open, and whether it is open
--   lasts(s, held, now) the microseconds until s may be deleted
--   resolve(s, q, now)  completes a state that was converted
--
-- q has the boundaries of the calendar. The functions here are made only if there is an escrow.
local function escrows()
  local HEADER, HEADER_SIZE = '>BI7I7I7I7I7I2', 38
  local HOLDER, HOLDER_SIZE = '>c8I7I7I7I7I4I7BI7I7', 62
  local most = 250
  local concat, sub = table.concat, string.sub

  -- Free room to this depth is room for any charge.
  local any = -2 * exact

  -- book returns the state after a charge of so many units at a time, now or earlier, whether or
  -- not there is room. If the clock was set back, a state may have a later time.
  local function book(kind, s, units, at, now, q)
    if kind.resolve then
      kind.resolve(s, q, now)
    end
    if units == 0 then
      return s
    end
    if at < now then
      local _, time = kind.room(s, now, q)
      at = max(at, min(time, now))
    end
    if kind.book then
      return kind.book(s, units, at, now, q)
    end
    local _, after = kind.decide(s, { units, any, 0, '', unpack(q or {}, 5) }, at)
    return after
  end

  -- expired books the units of holders whose time has come, in the last microsecond before, and
  -- drops these holders. It computes the sums again.
  local function expired(kind, s, held, now, q)
    local kept, due, moments = {}, {}, {}
    local units, demand, active, earliest, latest = 0, 0, 0, exact, 0
    for i = 1, #held.holders, HOLDER_SIZE do
      local text = sub(held.holders, i, i + HOLDER_SIZE - 1)
      local id, seq, birth, has, till, life, wants, flags, at, granted = struct.unpack(HOLDER, text)
      if till > now + life then -- the clock was set back
        till = now + life
        text = struct.pack(HOLDER, id, seq, birth, has, till, life, wants, flags, at, granted)
      end
      if till > now then
        kept[#kept + 1] = text
        units, demand = units + has, demand + wants
        earliest, latest = min(earliest, till), max(latest, till)
        if flags >= 2 then
          active = active + 1
        end
      elseif has > 0 then
        if not due[till] then
          due[till] = 0
          moments[#moments + 1] = till
        end
        due[till] = due[till] + has
      end
    end
    table.sort(moments)
    for _, till in ipairs(moments) do
      s = book(kind, s, due[till], till - 1, now, q)
    end
    held.units, held.demand, held.active, held.first, held.last = units, demand, active, earliest, latest
    held.holders = concat(kept)
    return s
  end

  -- open returns a state and its holders as of now. A state without a text of holders has none.
  local function open(kind, s, now, q)
    local text = s.escrow
    if not text then
      return s, { units = 0, demand = 0, first = exact, last = 0, active = 0, holders = '' }
    end
    local n = (#text - HEADER_SIZE) / HOLDER_SIZE
    if n < 0 or n > most or n % 1 > 0 then
      foreign()
    end
    local held, version, at = { holders = sub(text, HEADER_SIZE + 1) }, nil, nil
    version, held.units, held.demand, held.first, held.last, at, held.active = struct.unpack(HEADER, text)
    if version ~= 1 then
      foreign()
    end
    if now < at or held.first <= now then
      s = expired(kind, s, held, now, q)
    end
    return s, held
  end

  -- appended returns the text of a state with its holders, if any, after it.
  local function appended(text, held, now)
    if held.holders == '' then
      return text
    end
    local header = struct.pack(HEADER, 1, held.units, held.demand, held.first, held.last, now, held.active)
    return text .. cmsgpack.pack(header .. held.holders)
  end

  -- left returns the microseconds until a state that is kept as a string may be deleted.
  local function left(kind, s, held, now)
    local last = held.last
    if held.holders == '' then
      return kind.left(s, now)
    elseif kind.lasts then
      return kind.lasts(s, held, now)
    end
    s = book(kind, s, held.units, last, last)
    return max(kind.left(s, now), last - now)
  end

  -- seen returns a state with so many units of its escrow booked, and the text that package
  -- redisstore computes a decision from. After the text of a bucket come the units booked.
  local function seen(kind, t, q, now, units)
    local b = book(kind, t, units, now, now, q)
    local text = kind.view and kind.view(b, q, now, b) or kind.value(b)
    if units > 0 and t.p[1] == 1 then
      text = text .. cmsgpack.pack(units)
    end
    return b, text
  end

  -- Where the numbers of a kind say whether denied attempts count.
  local denials = { [4] = 5, [5] = 5, [6] = 4, [7] = 5 }

  -- decide decides a request beside so many units in escrow. It returns whether the request
  -- passes, the state after, without these units, and the view.
  local function decide(kind, t, q, now, units)
    local b, text = seen(kind, t, q, now, units)
    local allowed = kind.decide(b, q, now)
    local passes, after = kind.decide(t, q, now)
    local counts = denials[t.p[1]]
    if passes and not allowed and not (counts and t.p[counts] == 1) then
      -- Only the escrow is in the way. A request for more than there can be is denied too.
      q = { exact + 2, unpack(q, 2) }
      passes, after = kind.decide(t, q, now)
    end
    return allowed, after, text
  end

  return {
    open = open, book = book, appended = appended, left = left, seen = seen, decide = decide,
    most = most, holder = HOLDER, size = HOLDER_SIZE,
  }
end

local made

-- escrow returns the functions for a state with holders.
escrow = function()
  made = made or escrows()
  return made
end
