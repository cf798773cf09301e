-- The sliding log, as algo.SlidingLog. Numbers: kind, count, length, least interval, 1 if
-- denied attempts count.
--
-- The state is a sorted set. Its first member, at score -1, holds the numbers. An entry
-- for each request follows, scored by its time. The member of an entry is the units logged
-- up to and including it, and its cost. So entries of one time are in the order in which
-- they came, and the units logged between two entries are a difference. Only a settlement
-- reads more of the set than about log n entries.
--
-- A state table holds what is read first, and the changes to the set:
--   key      where the set is; with blank, its content does not count
--   base     units logged before the oldest entry; total: up to the newest
--   oldest   the oldest entry; last: the time of the newest, nil if there is none
--   low      entries before this time are dropped, and
--   skip     so many of the oldest that are left
--   tail     entries to add
--   edit     an entry to replace
--   fill     whether to write the numbers
-- An entry is a table {time, units up to and with it, cost}.
do
  -- No entry counts more. No limit is as large.
  local mostCost = 131072
  -- Where units are counted from. Beyond the bounds below they are renumbered.
  local origin = 2251799813685248
  local leastUnits = 1125899906842624
  local mostUnits = 4503599627370496

  local function pack(upTo, cost)
    return struct.pack('>I7I3', upTo, cost)
  end

  local function entry(member, score)
    local upTo, cost = struct.unpack('>I7I3', member)
    return { tonumber(score), upTo, cost }
  end

  local function fresh(p)
    return { p = p, blank = true, base = origin, total = origin, low = 0, skip = 0, tail = {} }
  end

  -- copy returns a table that may be changed.
  local function copy(s)
    local t = copied(s)
    t.tail = { unpack(s.tail) }
    return t
  end

  -- push adds an entry to a copy.
  local function push(t, at, cost)
    cost = min(cost, mostCost)
    t.total, t.last, t.start = t.total + cost, at, nil
    local e = { at, t.total, cost }
    t.tail[#t.tail + 1] = e
    t.oldest = t.oldest or e
  end

  -- settled returns the time to count from, and whether the clock was set back by more
  -- than a period.
  local function settled(s, now)
    if s.last == nil or now >= s.last then
      return now, false
    elseif s.last - now > s.p[3] then
      return now, true
    end
    return s.last, false
  end

  -- past returns how many of the entries to add are before a time. Units that have expired are booked at their time, so
  -- these may be old.
  local function past(s, start)
    local n = 0
    while s.tail[n + 1] and s.tail[n + 1][1] < start do
      n = n + 1
    end
    return n
  end

  -- first returns the first entry at a time or later, and remembers it.
  local function first(s, start)
    if s.last == nil or s.last < start then
      return nil
    elseif s.oldest[1] >= start then
      return s.oldest
    elseif s.start == start then
      return s.first
    end
    local e
    if not s.blank then
      local found = redis.call('ZRANGEBYSCORE', s.key, start, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      e = found[1] and entry(found[1], found[2])
    end
    s.start, s.first = start, e or s.tail[past(s, start) + 1]
    return s.first
  end

  -- used returns the units logged at a time or later, and the units before it.
  local function used(s, start)
    local e = first(s, start)
    local before = e and e[2] - e[3] or s.total
    return s.total - before, before
  end

  -- find returns the entry that brings the units logged to target, and how many entries
  -- come before it. If no entry does, it returns nil. target is more than base.
  local function find(s, target)
    local n, units = 0, s.tail[1] and s.tail[1][2] - s.tail[1][3] or s.total
    if not s.blank then
      n = redis.call('ZCOUNT', s.key, s.low, '+inf') - s.skip
    end
    if target > units then
      for i, e in ipairs(s.tail) do
        if e[2] >= target then
          return e, n + i - 1
        end
      end
      return nil
    end
    -- The first guess assumes that all entries have the same cost.
    local low, high = 0, n - 1
    local i = min(high, floor((target - s.base - 1) / (units - s.base) * n))
    while low <= high do
      local found = redis.call('ZRANGE', s.key, i - n, i - n, 'WITHSCORES')
      local e = entry(found[1], found[2])
      if e[2] < target then
        low = i + 1
      elseif e[2] - e[3] >= target then
        high = i - 1
      else
        return e, i
      end
      i = floor((low + high) / 2)
    end
  end

  -- drop drops the entries before a time from a copy. It returns the copy, or a fresh
  -- state.
  local function drop(t, start)
    local e = first(t, start)
    if e == nil then
      return fresh(t.p)
    elseif e ~= t.oldest then
      t.low, t.skip, t.oldest, t.base = start, 0, e, e[2] - e[3]
      t.tail = { unpack(t.tail, past(t, start) + 1) }
    end
    return t
  end

  -- prune drops entries from a copy until the rest just holds the newest count units.
  local function prune(t, count)
    local target = t.total - count + 1
    if t.oldest == nil or t.oldest[2] >= target then
      return
    end
    local e, before = find(t, target)
    local stored = 0
    if not t.blank then
      stored = redis.call('ZCOUNT', t.key, t.low, '+inf') - t.skip
    end
    t.skip = t.skip + min(before, stored)
    t.tail = { unpack(t.tail, max(0, before - stored) + 1) }
    t.oldest, t.base, t.start = e, e[2] - e[3], nil
  end

  -- remaining returns the units of s that are left under other numbers, see carried.
  local function remaining(s, p, at)
    local start = at - s.p[3] + 1
    if s.last == nil or s.last < start then
      return 0
    end
    local units = used(s, start)
    return min(units, carried(s.total - s.base, p[2], s.last + p[3], p[3], at))
  end

  -- waits returns when at most room units of s are left under other numbers. Units are left.
  local function waits(s, p, units, room, now)
    if units <= room then
      return now
    end
    local times = floor((s.total - s.base - room - 1) / p[2])
    local e = find(s, s.total - room)
    return min(s.last + p[3] + times * p[3], e[1] + s.p[3])
  end

  -- awaited returns the text for a request that leaves s as it is, under other numbers: -1,
  -- when it is admitted if nothing is written until then, when nothing is left, and the units
  -- that are left.
  local function awaited(s, q, p, now)
    local units = remaining(s, p, (settled(s, now)))
    if units == 0 then
      return ''
    end
    local cost = q[1]
    local room = max(0, p[2] - need(q, p[2], mostCost) - (cost > 0 and q[2] or 0))
    local till = waits(s, p, units, room, now)
    if cost > 0 then
      if p[4] >= p[3] then -- the last unit must have left
        till = waits(s, p, units, 0, now)
      end
      till = max(till, s.last + min(p[4], s.p[3]))
    end
    return cmsgpack.pack(-1, till, waits(s, p, units, 0, now), units)
  end

  -- too_soon reports whether the least interval has not passed.
  local function too_soon(s, at, start)
    return s.last ~= nil and s.last >= start and at - s.last < s.p[4]
  end

  -- shift adds to the units of all entries from one rank to another, in the order that
  -- keeps members unique.
  local function shift(key, first, last, more)
    for done = 0, last - first, chunk do
      local from = first + done
      local to = min(from + chunk - 1, last)
      if more > 0 then
        to = last - done
        from = max(first, to - chunk + 1)
      end
      local found = redis.call('ZRANGE', key, from, to, 'WITHSCORES')
      local new = {}
      for i = 1, #found, 2 do
        local upTo, cost = struct.unpack('>I7I3', found[i])
        new[i], new[i + 1] = found[i + 1], pack(upTo + more, cost)
      end
      redis.call('ZREMRANGEBYRANK', key, from, to)
      redis.call('ZADD', key, unpack(new))
    end
  end

  -- replace gives an entry another time and cost, or removes it if the cost is 0. The
  -- units of all entries after it change by as much, or of all before it: the differences
  -- stay the same. It takes O(k log n) for the k entries on the shorter side.
  local function replace(key, e, time, cost)
    local member = pack(e[2], e[3])
    local rank, last = redis.call('ZRANK', key, member), redis.call('ZCARD', key) - 1
    local more = cost - e[3]
    local behind = last - rank < rank - 1
    if behind and more > 0 then
      shift(key, rank + 1, last, more)
    end
    redis.call('ZREM', key, member)
    if cost > 0 then
      redis.call('ZADD', key, time, pack(behind and e[2] + more or e[2], cost))
      rank = rank + 1
    else
      last = last - 1
    end
    if not behind then
      shift(key, 1, cost > 0 and rank - 2 or rank - 1, -more)
    elseif more < 0 then
      shift(key, rank, last, more)
    end
  end

  -- logged returns the entry of a charge. It returns nil if the charge cost nothing, if
  -- its entry was dropped, or if the clock was set back.
  local function logged(s, at, cost)
    if s.blank then
      return nil
    end
    local rank = 1 + redis.call('ZCOUNT', s.key, 0, at - 1)
    while true do
      local found = redis.call('ZRANGE', s.key, rank, rank + chunk - 1, 'WITHSCORES')
      for i = 1, #found, 2 do
        local e = entry(found[i], found[i + 1])
        if e[1] ~= at then
          return nil
        elseif e[3] == cost then
          return e
        end
      end
      if #found < 2 * chunk then
        return nil
      end
      rank = rank + chunk
    end
  end

  -- given returns the state after the newest entries, at a time or later, have given units back.
  local function given(s, units, start)
    local counted, before = used(s, start)
    local total = s.total - min(units, counted)
    if total == s.total then
      return s
    elseif total == before then
      return fresh(s.p)
    end
    local t, e, n = copy(s), find(s, total)
    local stored = s.blank and 0 or redis.call('ZCOUNT', s.key, s.low, '+inf') - s.skip
    local left = { e[1], total, e[3] - (e[2] - total) }
    if n >= stored then
      t.tail = { unpack(s.tail, 1, n - stored + 1) }
      t.tail[n - stored + 1] = left
    else
      t.tail, t.cut = {}, stored - 1 - n
      t.edit = e[2] > total and { e, e[1], left[3] } or nil
    end
    t.total, t.last, t.start = total, e[1], nil
    return t
  end

  local function settle(s, c, actual, now)
    local p, cost, made = s.p, c[1], c[3]
    local at, back = settled(s, now)
    local start = at - p[3] + 1
    if back or made < start then
      return s
    elseif made == exact then -- the newest charges give units back
      return given(s, max(0, cost - actual), start)
    end
    local t, e = copy(s), logged(s, made, cost)
    local time = made
    if e then
      cost = min(actual, mostCost)
    elseif actual <= cost or made - at > p[3] then
      return s
    else
      -- The charge gets an entry, or adds to the next one.
      local more = actual - cost
      t = drop(t, start)
      e = first(t, made)
      if e == nil and (t.blank or redis.call('ZCOUNT', t.key, t.low, '+inf') <= p[2]) then
        push(t, made, more)
        return t
      elseif e then
        time = e[1]
      else -- no room: the last one counts for longer
        local found = redis.call('ZREVRANGE', t.key, 0, 0, 'WITHSCORES')
        e = entry(found[1], found[2])
      end
      cost = min(e[3] + more, mostCost)
    end
    if cost ~= e[3] or time ~= e[1] or t.low > s.low then
      t.edit = { e, time, cost }
      return t
    end
    return s
  end

  kinds[7] = {
    fresh = fresh,

    load = function(key)
      local found = head(key, 7, 1)
      if found == nil then
        return nil
      end
      local p, held = { cmsgpack.unpack(found[1]) }, nil
      if type(p[#p]) == 'string' then
        held, p[#p] = p[#p], nil
      end
      if #found < 4 then
        local s = fresh(p)
        s.key, s.escrow = key, held
        return held and s
      end
      local oldest = entry(found[3], found[4])
      local newest = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
      return {
        p = p, escrow = held, key = key, low = 0, skip = 0, tail = {},
        base = oldest[2] - oldest[3], oldest = oldest,
        total = struct.unpack('>I7', newest[1]), last = tonumber(newest[2]),
      }
    end,

    convert = function(s, p, now)
      local at, back = settled(s, now)
      local from, t = s.p, nil
      local start = at - from[3] + 1
      if back then
        t = fresh(p)
        push(t, at, max(s.total - s.base, p[2]))
      elseif p[3] >= from[3] then
        t = copy(s)
        t.p, t.fill = p, true
        t = drop(t, start)
      else
        t = fresh(p)
        local units = remaining(s, p, at)
        if units > 0 then
          -- The entry is not so late that the next request comes too soon after it.
          push(t, max(s.last, at - min(p[4], p[3] - 1)), units)
        end
      end
      t.moves = back or select(2, settled(t, now)) or p[5] == 1 and p[3] >= from[3] and p[2] >= from[2]
      return t
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local at, back = settled(s, now)
      local t = s
      if back then
        t = fresh(p)
        push(t, at, max(s.total - s.base, p[2]))
      end
      local start = at - p[3] + 1
      local units = used(t, start)
      if cost == 0 then
        return units <= p[2], t
      end
      local room = p[2] - q[2] - need(q, p[2], mostCost)
      local allowed = room >= 0 and units <= room and not (too_soon(t, at, start) and q[2] >= 0)
      if not allowed and q[4] ~= DEBIT and (room < 0 or p[5] == 0) then
        return false, t
      end
      t = drop(copy(t), start)
      if not allowed then
        prune(t, p[2])
        cost = min(cost, p[2] + 1) -- more units make no difference
      end
      push(t, at, cost)
      return allowed, t
    end,

    -- view is the time of the newest entry and the units that count. For a denied request
    -- it also has the entry that must go before there is room: its time, and the units up
    -- to and with it.
    -- What awaited returns comes first if s is kept under other numbers.
    view = function(s, q, now, kept)
      local p, cost = s.p, q[1]
      local at, back = settled(s, now)
      if kept ~= s and not s.moves then
        local text = awaited(kept, q, p, now)
        if text ~= '' then
          -- A debit that is denied is in s already.
          return text .. kinds[7].view(s, q[4] == DEBIT and { cost, q[2] } or q, now, s)
        end
      end
      if back then
        return cmsgpack.pack(s.last, s.total - s.base)
      end
      local start = at - p[3] + 1
      if s.last == nil or s.last < start then
        return ''
      end
      local units, before = used(s, start)
      local room = cost == 0 and p[2] or p[2] - q[2] - need(q, p[2], mostCost)
      if room >= 0 and (units > room or too_soon(s, at, start)) then
        local gone = units - room + ((p[5] == 1 or q[4] == DEBIT) and min(cost, p[2] + 1) or 0)
        local e = gone > 0 and find(s, before + gone)
        if e then
          return cmsgpack.pack(s.last, units, e[1], e[2] - before)
        end
      end
      return cmsgpack.pack(s.last, units)
    end,

    -- The text of the processes that hold units follows the numbers.
    save = function(key, s, now, held)
      local p, last = s.p, s.last
      local over, holding = last == nil or last <= now - p[3], held and held.holders ~= ''
      if over then
        if not holding then
          redis.call('DEL', key)
          return
        end
        s, last = fresh(p), 0
      end
      local fill = s.fill or held
      if s.blank then
        redis.call('DEL', key)
      elseif fill or s.low > 0 then
        redis.call('ZREMRANGEBYSCORE', key, fill and -1 or 0, s.low - 1)
      end
      if s.cut and s.cut > 0 then
        redis.call('ZREMRANGEBYRANK', key, -s.cut, -1)
      end
      local added = {}
      if s.blank or fill then
        local numbers = cmsgpack.pack(unpack(p))
        added = { -1, held and held.hold.appended(numbers, held, now) or numbers }
      end
      for _, e in ipairs(s.tail) do
        added[#added + 1] = e[1]
        added[#added + 1] = pack(e[2], e[3])
      end
      if added[1] then
        redis.call('ZADD', key, unpack(added))
      end
      if s.skip > 0 then
        redis.call('ZREMRANGEBYRANK', key, 1, s.skip)
      end
      if s.edit then
        replace(key, unpack(s.edit))
        last = tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
        if (last < 0 or last <= now - p[3]) and not holding then -- below 0 if only the numbers are left
          redis.call('DEL', key)
          return
        end
      end
      if s.total > mostUnits or s.base < leastUnits then
        shift(key, 1, redis.call('ZCARD', key) - 1, origin - s.base)
      end
      local ends = last + p[3]
      if holding then
        ends = max(ends, held.last + (held.units > 0 and p[3] or 0))
      end
      local ms = px(ends - now, now)
      redis.call('PEXPIRE', key, ms)
    end,

    isfresh = function(s, now)
      return s.last == nil or s.last <= now - s.p[3]
    end,

    settle = settle,
  }
end
