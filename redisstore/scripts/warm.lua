-- The token bucket with a cold start, as algo.WarmBucket. Numbers: kind, num, den, burst,
-- debt, the microseconds of the warm-up, how many times slower it starts, and how far time
-- may go back. A state is the time of the last charge, the ticks owed and the warmth.
--
-- Ticks and warmth need up to 62 bits, and their products twice that. So they are bigs:
-- lists of digits of 24 bits, the lowest first, without leading zeros. In texts and
-- charges, a big is two numbers: the low 48 bits, and the others.
do
  local base = 16777216
  local most62, most61 = { 0, 0, 16384 }, { 0, 0, 8192 }

  local function trimmed(a)
    while a[#a] == 0 do
      a[#a] = nil
    end
    return a
  end

  -- big returns an integer of at most 2^53 as a big.
  local function big(n)
    local a = {}
    while n > 0 do
      a[#a + 1] = n % base
      n = floor(n / base)
    end
    return a
  end

  local function joined(low, high)
    return trimmed({ low % base, floor(low / base), high })
  end

  local function halves(a)
    return (a[1] or 0) + (a[2] or 0) * base, a[3] or 0
  end

  -- approx returns a big as the nearest number, or one of its neighbours.
  local function approx(a)
    local n = 0
    for i = #a, 1, -1 do
      n = n * base + a[i]
    end
    return n
  end

  -- more reports whether a > b.
  local function more(a, b)
    if #a ~= #b then
      return #a > #b
    end
    for i = #a, 1, -1 do
      if a[i] ~= b[i] then
        return a[i] > b[i]
      end
    end
    return false
  end

  local function least(a, b)
    return more(a, b) and b or a
  end

  local function add(a, b)
    local c, carry = {}, 0
    for i = 1, max(#a, #b) do
      local n = (a[i] or 0) + (b[i] or 0) + carry
      c[i] = n % base
      carry = floor(n / base)
    end
    if carry > 0 then
      c[#c + 1] = carry
    end
    return c
  end

  -- sub returns a - b, or nothing if that is less.
  local function sub(a, b)
    if not more(a, b) then
      return {}
    end
    local c, borrow = {}, 0
    for i = 1, #a do
      local n = a[i] - (b[i] or 0) - borrow
      borrow = n < 0 and 1 or 0
      c[i] = n + borrow * base
    end
    return trimmed(c)
  end

  local function mul(a, b)
    local c = {}
    for i = 1, #a + #b do
      c[i] = 0
    end
    for i = 1, #a do
      local carry = 0
      for j = 1, #b do
        local n = c[i + j - 1] + a[i] * b[j] + carry
        c[i + j - 1] = n % base
        carry = floor(n / base)
      end
      c[i + #b] = carry
    end
    return trimmed(c)
  end

  -- div returns a/b rounded down, and whether there was a remainder. It guesses each
  -- digit, at most two too low, and corrects it.
  local function div(a, b)
    local q, r, d = {}, {}, approx(b)
    for i = #a, 1, -1 do
      table.insert(r, 1, a[i])
      trimmed(r)
      local n = max(0, floor(approx(r) / d) - 1)
      r = sub(r, mul(b, { n }))
      while not more(b, r) do
        r = sub(r, b)
        n = n + 1
      end
      q[i] = n
    end
    return trimmed(q), #r > 0
  end

  -- divup is div rounded up.
  local function divup(a, b)
    local q, rest = div(a, b)
    return rest and add(q, { 1 }) or q
  end

  local function state(p, at, owed, warm)
    return { p = p, at = at, owed = owed, warm = warm }
  end

  -- ticks returns how many ticks so many units are, 2^62 at most.
  local function ticks(p, units)
    return least(mul(big(units), big(p[3])), most62)
  end

  -- gain returns the warmth of so many units.
  local function gain(p, units)
    return mul(mul(big(units), big(p[3])), big(2 * (1 + p[7])))
  end

  -- ramp returns the warmth of some shares of Warm·Num units. A warm limiter has 5 + cold
  -- shares, of which 4 are slow.
  local function ramp(p, share)
    return mul(mul(big(p[6]), big(p[2])), big(share))
  end

  -- settled returns the ticks owed and the warmth at the time of a request, that time,
  -- and whether the clock was set back.
  local function settled(s, now)
    local p, at, owed, warm = s.p, s.at, s.owed, s.warm
    if now < at then
      if at - now <= p[8] then
        return owed, warm, at, false
      end
      local burst = ticks(p, p[4])
      return more(burst, owed) and burst or owed, warm, now, true
    end
    local gone = mul(big(now - at), big(p[2]))
    if more(owed, gone) then
      return sub(owed, gone), warm, now, false
    end
    return {}, sub(warm, mul(sub(gone, owed), big(5 + p[7]))), now, false
  end

  -- price returns the ticks that cost units take from a limiter of this warmth, and the
  -- warmth after that.
  local function price(p, cost, warm)
    local took, gained = ticks(p, cost), gain(p, cost)
    local after = least(add(warm, gained), ramp(p, 5 + p[7]))
    local slow = sub(ramp(p, 4), warm)
    if #slow == 0 then
      return took, after
    end
    -- The area under the ramp.
    local part = least(gained, slow)
    local area = mul(mul(part, big(p[7] - 1)), sub(add(slow, slow), part))
    return add(took, divup(area, ramp(p, 16 * (1 + p[7])))), after
  end

  -- givenback returns the state without a charge that acts at a moment, if it is the last
  -- one: over is what is owed with it.
  local function givenback(s, c, now, over, moment)
    local p = s.p
    local owed, warm, at, setback = settled(s, now)
    if c[1] == 0 or setback or #owed == 0 then
      return s
    end
    local due = sub(add(owed, big(p[2])), mul(big(moment - at), big(p[2])))
    if more(due, over) or more(over, due) then
      return s
    end
    local before = sub(warm, gain(p, c[1]))
    local took = price(p, c[1], before)
    if not more(ramp(p, 5 + p[7]), warm) then
      before, took = warm, ticks(p, c[1]) -- how cold it was is not known any more
    end
    return state(p, at, sub(owed, took), before)
  end

  kinds[2] = {
    fresh = function(p)
      return { p = p, at = 0, owed = {}, warm = {}, raw = '' }
    end,

    parse = function(_, at, owed, owedhigh, warm, warmhigh, ...)
      return state({ ... }, at, joined(owed, owedhigh), joined(warm, warmhigh))
    end,

    value = function(s)
      local owed, owedhigh = halves(s.owed)
      local warm, warmhigh = halves(s.warm)
      return cmsgpack.pack(2, s.at, owed, owedhigh, warm, warmhigh, unpack(s.p))
    end,

    left = function(s, now)
      if #s.owed + #s.warm == 0 and s.at <= now then
        return 0
      end
      local p = s.p
      local idle = floor((approx(s.owed) + approx(s.warm) / (5 + p[7])) / p[2]) + 3
      return min(idle, 1e15) + s.at - now
    end,

    -- isfresh reports whether nothing is owed and the limiter is cold.
    isfresh = function(s, now)
      local owed, warm, at = settled(s, now)
      return at == now and #owed == 0 and #warm == 0
    end,

    convert = function(s, p, now)
      local from = s.p
      local owed, warm, at, back = settled(s, now)
      owed = least(divup(mul(owed, big(p[2])), big(from[2])), most62)
      warm = div(mul(warm, ramp(p, 5 + p[7])), ramp(from, 5 + from[7]))
      local t = state(p, at, owed, warm)
      t.moves = back or select(4, settled(t, now))
      return t
    end,

    decide = function(s, q, now)
      local p, cost = s.p, q[1]
      local owed, warm, at, setback = settled(s, now)
      if setback then
        s = state(p, at, owed, warm)
      end
      local least = cost
      if q[4] == OVERDRAW and cost < exact and not more(ticks(p, cost), most61) then
        least = min(cost, 1)
      end
      local passes = cost == 0 or least <= p[4] - q[2]
      if passes and #owed > 0 then
        local wait = max(q[3], 0) - (at - now)
        passes = wait > 0 and not more(owed, most61) and not more(owed, mul(big(wait), big(p[2])))
      end
      if not passes then
        return false, q[4] == DEBIT and cost > 0 and kinds[2].settle(s, { 0 }, cost, now) or s
      elseif cost == 0 then
        return true, s
      end
      local took, after = price(p, cost, warm)
      return true, state(p, at, add(owed, took), after)
    end,

    -- cancel gives back a reservation before its moment if it is the last one.
    cancel = function(s, c, now)
      local _, _, at = settled(s, now)
      if at > c[3] then
        return s
      end
      return givenback(s, c, now, joined(c[5], c[4]), c[3])
    end,

    -- undo also works after the charge's moment, as long as the bucket still pays for it.
    undo = function(s, c, now)
      local over = joined(c[5], c[4])
      local _, _, at = settled(s, now)
      if at > c[3] then
        over = sub(over, mul(big(at - c[3]), big(s.p[2])))
      end
      return givenback(s, c, now, over, max(at, c[3]))
    end,

    settle = function(s, c, actual, now)
      local p = s.p
      local owed, warm, at = settled(s, now)
      actual = min(actual, exact - 1)
      if actual <= c[1] then
        return state(p, at, sub(owed, ticks(p, c[1] - actual)), warm)
      end
      local most = ticks(p, p[4] + p[5])
      local took, after = price(p, actual - c[1], warm)
      local total = least(add(owed, took), most)
      if more(total, owed) then
        return state(p, at, total, after)
      end
      return state(p, at, owed, warm)
    end,
  }
end
