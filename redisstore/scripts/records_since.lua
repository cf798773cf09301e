-- Reads which records have changed. KEYS: the meta text and the log, see records_put.lua. ARGV: the epoch and the number of the
-- last change that the caller has read, the most members, and the number of the last change when the caller began to read all. The
-- caller misses nothing of what the log dropped before. Replies with words: the epoch, 1 if the caller must read all records
-- because it cannot know what it missed, the number to go on from, 1 if there is more, the server's time, the number of the last
-- change, and the members, each with its number. The numbers of changes follow the clock, in microseconds.
local raw = redis.call('GET', KEYS[1])
if not raw then
  return (ARGV[1] == '-' and '- 0' or '- 1') .. ' 0 0 0 0'
end
local epoch, last, floor = cmsgpack.unpack(raw)
local from, most, again = tonumber(ARGV[2]), tonumber(ARGV[3]), '0'
if from > 0 and (epoch ~= ARGV[1] or math.max(from, tonumber(ARGV[4])) < floor or from > last) or from == 0 and ARGV[1] ~= '-' and ARGV[1] ~= epoch then
  again, from = '1', 0
end
local words = {epoch, again, string.format('%.0f', last), '0', string.format('%.0f', now), string.format('%.0f', last)}
if from == last then
  return table.concat(words, ' ')
end
local rows = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%.0f', from), '+inf', 'WITHSCORES', 'LIMIT', 0, most)
if #rows == 2 * most then
  words[3], words[4] = rows[#rows], '1'
end
words[7] = table.concat(rows, ' ')
return table.concat(words, ' ')
