-- Named records that are due at some time: the keys that all kinds of them have. A file that includes this one sets before
-- KIND, one of NAMED, and RECORDS.
--
--   RECORDS      a hash with the records as texts: package schema describes their form
--   KIND-names   all, in their order
--   KIND-dues    by when the record is due, if it ever is and is not claimed
--   KIND-claims  those that were handed out because they were due, by when the claim ends

local call, sub, format = redis.call, string.sub, string.format
local NAMES, DUES, CLAIMS = PREFIX .. KIND .. '-names', PREFIX .. KIND .. '-dues', PREFIX .. KIND .. '-claims'
local NEVER = '-' -- when a record is due that is not

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
