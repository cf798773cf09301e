-- Exact products and quotients of integers, even if a number in between is larger than
-- 2^53. The token bucket, the leaky bucket and the sliding counter need them.

-- split cuts a number into two halves of 26 bits (Veltkamp).
local function split(a)
  local t = 134217729 * a
  local high = t - (t - a)
  return high, a - high
end

-- product returns a*b as the sum of two numbers, exactly (Dekker).
local function product(a, b)
  local p = a * b
  local ah, al = split(a)
  local bh, bl = split(b)
  return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl
end

-- muldiv returns a*b/c rounded down, and the remainder, exactly; for a quotient of
-- 2^53 or more it returns 2^53.
local function muldiv(a, b, c)
  local p = a * b
  if p < exact then
    local q = floor(p / c)
    return q, p - q * c
  end
  if p / c >= exact + 4 then -- a smaller p / c may be rounded up
    return exact, 0
  end
  local high, low = product(a, b)
  local q = min(floor(high / c), exact)
  local qh, ql = product(q, c)
  local r = (high - qh) + (low - ql)
  while r < 0 do
    q, r = q - 1, r + c
  end
  while r >= c do
    q, r = q + 1, r - c
  end
  if q >= exact then
    return exact, 0
  end
  return q, r
end

-- less reports whether a*b < c*d.
local function less(a, b, c, d)
  local h1, l1 = product(a, b)
  local h2, l2 = product(c, d)
  return h1 < h2 or h1 == h2 and l1 < l2
end
