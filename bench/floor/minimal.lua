-- A token bucket as a theoretical arrival time (GCRA), and nothing else: no
-- floors, no debts, no change of numbers, rounding as it comes.
--
-- KEYS: the state. ARGV: microseconds per unit, and per burst.
-- Replies: allowed, remaining, retry after, reset after (both in microseconds).
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local every, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local arrival = tonumber(redis.call('GET', KEYS[1]) or now)
if arrival < now then
  arrival = now
end
local after = arrival + every
local room = now + span - after
if room < 0 then
  return {0, 0, -room, arrival - now}
end
redis.call('SET', KEYS[1], after, 'PX', math.ceil((after - now) / 1000))
return {1, math.floor(room / every), 0, after - now}
