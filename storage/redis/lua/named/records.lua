-- Named records that are due at some time, as the kinds of them have it in common. The file of a kind includes this one,
-- and then, when it has defined what that needs, named/commands.lua. Before that it sets KIND, one of NAMED, and RECORDS.
-- These keys have the names of a kind:
--
--   RECORDS      a hash with the records as texts: package schema describes their form
--   KIND-names   all, in their order
--   KIND-dues    by when the record is due, if it ever is and is not claimed
--   KIND-claims  those that were handed out because they were due, by when the claim ends

local call, sub, format = redis.call, string.sub, string.format
local NAMES, DUES, CLAIMS = PREFIX .. KIND .. '-names', PREFIX .. KIND .. '-dues', PREFIX .. KIND .. '-claims'
local NEVER = '-' -- when a record is due that is not

-- The operations by their names, each given the index of its first argument. It returns the index
-- after its last one.
local COMMANDS = {}

-- place puts a name where it belongs if the record is due then, in ms as text, or NEVER. It ends the claim.
local function place(name, due)
  call('ZREM', CLAIMS, name)
  if due == NEVER then
    call('ZREM', DUES, name)
  else
    call('ZADD', DUES, due, name)
  end
end

-- remove_name removes a record, and returns whether there was one.
local function remove_name(name)
  for _, set in ipairs({ NAMES, DUES, CLAIMS }) do call('ZREM', set, name) end
  return call('HDEL', RECORDS, name) == 1
end

-- first_due returns the names of the records that are due, the earliest first, at most limit.
local function first_due(limit)
  return call('ZRANGEBYSCORE', DUES, '-inf', format('%.0f', NOW), 'LIMIT', '0', limit)
end
