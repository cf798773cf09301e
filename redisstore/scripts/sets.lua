-- What the kinds that are kept as sorted sets share.

-- How many members are read at once.
local chunk = 200

-- head returns the members of the set at a key up to a rank, each with its score after
-- it, or nil if there is no set. The first member holds the limit's numbers.
local function head(key, kind, rank)
  local found = redis.call('ZRANGE', key, 0, rank, 'WITHSCORES')
  if not found[1] then
    return nil
  elseif string.byte(found[1]) ~= kind then
    foreign()
  end
  return found
end

-- copied returns a table with the same fields.
local function copied(s)
  local t = {}
  for k, v in pairs(s) do
    t[k] = v
  end
  return t
end
