-- The leases of a concurrency limit, as algo.Concurrency. Numbers: kind, max, queue, time
-- to live, latency.
--
-- The state is a sorted set. Its first member, at score -inf, is the header. A member for
-- each lease follows in order of arrival, and then one for each in order of expiry:
--   the lease's 8 bytes                    scored by (number · 2^17 + units) - 2^53, below 0
--   its units in 3 bytes, and its 8 bytes  scored by its expiry + shift
-- So a lease is found by its 8 bytes. Ranks give the units held, the leases that have
-- expired, and which of two leases came first. Where leases hold several units, the
-- expired or the earlier ones are read a chunk at a time.
--
-- When the clock is set back by more than a time to live, shift grows by as much, and the
-- scores of expiries stay. So each expiry is as long after the new time as it was after the
-- old time.
--
-- A state table holds the header, and the changes to the set:
--   key        where the set is; with blank, its content does not count
--   at         the time of the latest charge
--   latency    the latency that releases reported, at the time adapted, 0 for none
--   units      units of all leases; count: how many leases; latest: the last expiry's score
--   number     the number of the latest arrival
--   gone       leases up to this score are dropped
--   renewed    new scores of leases in the set
--   added      leases to add, {8 bytes, units, score}
--   released   the lease to remove
-- and what survey computes at the time of the script.
do
  local below = 9007199254740992
  local stride = 131072 -- from one arrival's score to the next
  -- Beyond these, arrivals and expiries are renumbered.
  local mostNumber = 34359738368
  local mostShift = 2251799813685248

  local function fresh(p)
    return {
      p = p, blank = true, at = 0, latency = 0, adapted = 0, shift = 0, units = 0, count = 0,
      latest = -1, number = 0, gone = -1, renewed = {}, added = {},
    }
  end

  -- copy returns a table that may be changed.
  local function copy(s)
    local t = copied(s)
    t.renewed, t.added = copied(s.renewed), { unpack(s.added) }
    return t
  end

  -- each calls f with the leases of the set whose expiries have scores from one to another,
  -- in order, until f returns true.
  local function each(s, from, to, f)
    if s.blank then
      return
    end
    local later = redis.call('ZCOUNT', s.key, from, '+inf')
    local n = redis.call('ZCOUNT', s.key, from, to)
    for i = 0, n - 1, chunk do
      local found = redis.call('ZRANGE', s.key, i - later, min(i + chunk, n) - 1 - later, 'WITHSCORES')
      for j = 1, #found, 2 do
        local units = struct.unpack('>I3', found[j])
        if f(string.sub(found[j], 4), units, tonumber(found[j + 1])) then
          return
        end
      end
    end
  end

  -- survey computes, once, by how much the clock was set back (jump) and which score means
  -- now (time). It also counts the leases (living) and units (alive) that have not expired.
  local function survey(s, now)
    if s.time then
      return
    end
    local back = s.at - now
    s.jump = back > s.p[4] and back or 0
    s.time = now + s.jump + s.shift
    s.alive, s.living = 0, 0
    if s.latest <= s.time then
      return
    end
    local n, units = 0, 0
    if not s.blank then
      n = redis.call('ZCOUNT', s.key, s.gone + 1, s.time)
    end
    if n > 0 and s.units == s.count and next(s.renewed) == nil then
      units = n
    elseif n > 0 then
      n = 0
      each(s, s.gone + 1, s.time, function(id, its)
        if (s.renewed[id] or 0) <= s.time then
          n, units = n + 1, units + its
        end
      end)
    end
    for _, l in ipairs(s.added) do
      if l[3] <= s.time then
        n, units = n + 1, units + l[2]
      end
    end
    s.alive, s.living = s.units - units, s.count - n
  end

  -- find returns a lease that has not expired: its units, its score, its index among the
  -- added ones, and its arrival's score.
  local function find(s, id)
    if #id < 8 then
      return nil
    end
    for i, l in ipairs(s.added) do
      if l[1] == id and l[3] > s.time then
        return l[2], l[3], i
      end
    end
    local arrival = not s.blank and redis.call('ZSCORE', s.key, id)
    if not arrival then
      return nil
    end
    arrival = tonumber(arrival)
    local units = (arrival + below) % stride
    local score = s.renewed[id] or tonumber(redis.call('ZSCORE', s.key, struct.pack('>I3', units) .. id))
    if score > s.time and score > s.gone then
      return units, score, nil, arrival
    end
  end

  -- adapted_until returns when the reported latency stops to count. A latency whose time follow moves to zero does not count.
  local function adapted_until(s)
    return s.adapted > s.jump and s.adapted + s.p[4] or 0
  end

  -- latency returns the time that a unit is assumed to be held.
  local function latency(s, now)
    return now + s.jump < adapted_until(s) and s.latency or s.p[5]
  end

  -- most returns how many units there may be, with the units of the request.
  local function most(p, unit, q)
    local all = p[2] + p[3]
    local spare, wait = min(q[2], all), q[3]
    if wait < 0 then
      return p[2] - spare
    elseif wait > 0 and unit > 0 then
      local turns = floor(wait / unit)
      if turns < floor(all / p[2]) then
        return min(all - spare, (turns + 1) * p[2])
      end
    end
    return all - spare
  end

  -- follow moves a copy to the time of a clock that was set back.
  local function follow(t, now)
    if t.jump > 0 then
      t.at, t.shift, t.adapted = now, t.shift + t.jump, max(0, t.adapted - t.jump)
      t.jump = 0
    end
  end

  -- expire drops the leases that have expired from a copy.
  local function expire(t, now)
    if t.living == 0 then
      t.blank, t.shift, t.number, t.gone, t.latest = true, 0, 0, -1, -1
      t.renewed, t.added, t.time = {}, {}, now
    elseif t.living < t.count then
      local added = t.added
      t.gone, t.added = t.time, {}
      for id, score in pairs(t.renewed) do
        if score <= t.time then
          t.renewed[id] = nil
        end
      end
      for _, l in ipairs(added) do
        if l[3] > t.time then
          t.added[#t.added + 1] = l
        end
      end
    end
    t.units, t.count = t.alive, t.living
  end

  -- frees returns the score at which need units have expired.
  local function frees(s, need)
    if s.units == s.count and #s.added == 0 and next(s.renewed) == nil then
      local found = redis.call('ZRANGE', s.key, need - 1 - s.living, need - 1 - s.living, 'WITHSCORES')
      return tonumber(found[2])
    end
    local other = {}
    for _, l in ipairs(s.added) do
      other[#other + 1] = l
    end
    for id, score in pairs(s.renewed) do
      other[#other + 1] = { id, (find(s, id)) or 0, score }
    end
    table.sort(other, function(a, b)
      return a[3] < b[3]
    end)
    local i, at = 1, nil
    local function take(units, score)
      if score > s.time and need > 0 then
        need, at = need - units, score
      end
      return need <= 0
    end
    each(s, s.time + 1, below, function(id, units, score)
      while other[i] and other[i][3] < score do
        if take(other[i][2], other[i][3]) then
          return true
        end
        i = i + 1
      end
      return not s.renewed[id] and take(units, score)
    end)
    while other[i] and need > 0 do
      take(other[i][2], other[i][3])
      i = i + 1
    end
    return at
  end

  -- ahead returns the units of a lease and of the leases that came before it.
  local function ahead(s, id, index, arrival)
    local units = s.alive
    if index then
      for i = index + 1, #s.added do
        if s.added[i][3] > s.time then
          units = units - s.added[i][2]
        end
      end
      return units
    end
    units = redis.call('ZRANK', s.key, id) -- the lease's number from 1, as the header comes first
    if s.units ~= s.count or s.gone >= 0 then
      local n = units
      units = 0
      for i = 1, n, chunk do
        local found = redis.call('ZRANGE', s.key, i, min(i + chunk - 1, n), 'WITHSCORES')
        for j = 2, #found, 2 do
          units = units + (tonumber(found[j]) + below) % stride
        end
      end
    end
    each(s, 0, s.time, function(other, its)
      if not s.renewed[other] and tonumber(redis.call('ZSCORE', s.key, other)) < arrival then
        units = units - its
      end
    end)
    return units
  end

  local function release(s, c, held, now)
    survey(s, now)
    local id = c[6]
    local units, _, _, arrival = find(s, id)
    if not units and s.jump == 0 and s.living == s.count then
      return false, s
    end
    local t = copy(s)
    follow(t, now)
    local unit = latency(t, now)
    expire(t, now)
    if not units then
      return false, t
    end
    t.alive, t.living = t.alive - units, t.living - 1
    if t.living == 0 then
      expire(t, now)
    else
      t.units, t.count = t.alive, t.living
      t.released = { id, units, arrival }
    end
    if held >= 0 and t.p[5] > 0 then
      t.latency, t.adapted = floor((unit + held) / 2), max(now, 1)
      t.at = max(t.at, now)
    end
    return true, t
  end

  local function cancel(s, c, now)
    if c[1] > 0 then
      local _
      _, s = release(s, c, -1, now)
    end
    return s
  end

  -- renumber gives all arrivals and expiries new scores, without shift. It is needed once
  -- in 2^35 arrivals, or 70 years by which the clock was set back. The header is not in
  -- the set meanwhile.
  local function renumber(key, shift)
    local n = redis.call('ZCARD', key) / 2
    for i = 0, 2 * n - 1, chunk do
      local found = redis.call('ZRANGE', key, i, i + chunk - 1, 'WITHSCORES')
      local new = {}
      for j = 1, #found, 2 do
        local score = tonumber(found[j + 1])
        local rank = i + (j - 1) / 2
        if rank < n then
          score = (rank + 1) * stride + (score + below) % stride - below
        else
          score = score - shift
        end
        new[j], new[j + 1] = score, found[j]
      end
      redis.call('ZADD', key, unpack(new))
    end
    return n
  end

  -- clear removes the leases whose expiries have scores up to one.
  local function clear(key, gone)
    while true do
      local found = redis.call('ZRANGEBYSCORE', key, 0, gone, 'LIMIT', 0, chunk)
      if #found == 0 then
        return
      end
      local old = {}
      for _, member in ipairs(found) do
        old[#old + 1] = member
        old[#old + 1] = string.sub(member, 4)
      end
      redis.call('ZREM', key, unpack(old))
    end
  end

  local function save(key, s, now)
    survey(s, now)
    local ends = adapted_until(s)
    if s.living == 0 and now + s.jump >= ends then
      redis.call('DEL', key)
      return
    end
    if s.blank then
      redis.call('DEL', key)
    else
      redis.call('ZREMRANGEBYRANK', key, 0, 0)
      for id, score in pairs(s.renewed) do
        local units = (tonumber(redis.call('ZSCORE', key, id)) + below) % stride
        redis.call('ZADD', key, score, struct.pack('>I3', units) .. id)
      end
      if s.gone >= 0 then
        clear(key, s.gone)
      end
    end
    if s.released then
      redis.call('ZREM', key, s.released[1], struct.pack('>I3', s.released[2]) .. s.released[1])
    end
    local number, shift, latest = s.number, s.shift, s.latest
    local added = {}
    for _, l in ipairs(s.added) do
      number = number + 1
      added[#added + 1] = number * stride + l[2] - below
      added[#added + 1] = l[1]
      added[#added + 1] = l[3]
      added[#added + 1] = struct.pack('>I3', l[2]) .. l[1]
    end
    if number > mostNumber or shift > mostShift then
      if added[1] then
        redis.call('ZADD', key, unpack(added))
      end
      number, latest, shift, added = renumber(key, shift), latest - shift, 0, {}
    end
    if s.released then
      latest = tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
    end
    added[#added + 1] = '-inf'
    added[#added + 1] = cmsgpack.pack(s.p[1], s.p[2], s.p[3], s.p[4], s.p[5], s.at, s.latency,
      s.adapted, shift, s.units, s.count, latest, number)
    redis.call('ZADD', key, unpack(added))
    if s.living > 0 then
      ends = max(ends, latest - shift)
    end
    local ms = px(ends - now - s.jump, now)
    redis.call('PEXPIRE', key, ms)
  end

  kinds[8] = {
    fresh = fresh,

    load = function(key)
      local found = head(key, 8, 0)
      if found == nil then
        return nil
      end
      local s = fresh(nil)
      local kind, units, queue, ttl, unit
      kind, units, queue, ttl, unit, s.at, s.latency, s.adapted, s.shift, s.units, s.count,
        s.latest, s.number = cmsgpack.unpack(found[1])
      s.p, s.key, s.blank = { kind, units, queue, ttl, unit }, key, false
      return s
    end,

    convert = function(s, p, now)
      survey(s, now)
      local t = copy(s)
      t.p, t.time = p, nil
      if s.adapted > 0 then
        -- The reported latency counts until it expires under either numbers.
        t.adapted = min(s.adapted, s.adapted + s.p[4] - p[4])
        if t.adapted <= s.jump or now + s.jump >= t.adapted + p[4] then
          t.latency, t.adapted = 0, 0
        end
      end
      t.moves = s.jump > 0 or s.at - now > p[4]
      return t
    end,

    decide = function(s, q, now)
      survey(s, now)
      local p, cost, id = s.p, q[1], q[4]
      local t = s
      if s.jump > 0 then
        t = copy(s)
        follow(t, now)
      end
      if cost == 0 then
        return true, t
      end
      local held, score, index = find(t, id)
      if not held and t.alive > most(p, latency(t, now), q) - cost then
        return false, t
      end
      t = copy(t)
      expire(t, now)
      t.at = max(t.at, now)
      local ends = now + p[4] + t.shift
      if not held then
        t.added[#t.added + 1] = { id, cost, ends }
        t.units, t.count = t.units + cost, t.count + 1
        t.alive, t.living = t.units, t.count
      else
        ends = max(score, ends)
        if index then
          for i, l in ipairs(t.added) do
            if l[1] == id then
              t.added[i] = { id, held, ends }
            end
          end
        else
          t.renewed[id] = ends
        end
      end
      t.latest = max(t.latest, ends)
      return true, t
    end,

    -- view is the member, the time of the latest charge, the latency and its time, the
    -- units, and the latest expiry. For a member that holds a lease, two values follow: 1,
    -- and the units up to and including its own. For a member that must wait, three values
    -- follow: 0, how many units are missing, and when these units expire.
    view = function(s, q, now)
      survey(s, now)
      local p, cost = s.p, q[1]
      if s.living == 0 then
        if s.adapted == 0 then
          return ''
        end
        return cmsgpack.pack(q[4], s.at, s.latency, s.adapted, 0, 0)
      end
      local latest = s.latest - s.shift
      if cost > 0 then
        local unit = latency(s, now)
        local held, _, index, arrival = find(s, q[4])
        if held then
          if unit > 0 and s.alive > p[2] then -- otherwise there is no delay
            held = ahead(s, q[4], index, arrival)
          end
          return cmsgpack.pack(q[4], s.at, s.latency, s.adapted, s.alive, latest, 1, held)
        end
        local bound = most(p, unit, q)
        if cost > bound then
          bound = most(p, p[5], q) -- once the reported latency does not count any more
        end
        local need = s.alive - (bound - cost)
        if cost <= bound and need > 0 then
          return cmsgpack.pack(q[4], s.at, s.latency, s.adapted, s.alive, latest, 0, need, frees(s, need) - s.shift)
        end
      end
      return cmsgpack.pack(q[4], s.at, s.latency, s.adapted, s.alive, latest)
    end,

    save = save,

    isfresh = function(s, now)
      survey(s, now)
      return s.living == 0 and now + s.jump >= adapted_until(s)
    end,

    cancel = cancel,
    undo = cancel,
    settle = function(s)
      return s
    end,
    release = release,
  }
end
