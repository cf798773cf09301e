-- What the kinds that are kept as sorted sets share.

-- How many members are read at once.
local chunk = 200

-- head returns the members of the set at a key up to a rank, each with its score after
-- it. The first member holds the limit's numbers; if it is not of this kind, head
-- returns nil.
local function head(key, kind, rank)
  local found = redis.pcall('ZRANGE', key, 0, rank, 'WITHSCORES')
  if found.err then
    foreign(found)
  elseif found[1] and string.byte(found[1]) == kind then
    return found
  end
end

-- copied returns a table with the same fields.
local function copied(s)
  local t = {}
  for k, v in pairs(s) do
    t[k] = v
  end
  return t
end
