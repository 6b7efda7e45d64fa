-- Checks which of these members of expiring are not jobs that expire. With repair they are
-- removed; else nothing is changed. The check of jobs compares when they expire.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4…] members, whole keys
--
-- Reply: how many of these were checked, from the first one on, at least one; and a text for
-- each fault

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include data: metadata

-- expires returns whether there is a job with that key that expires.
local function expires(key)
  if string.sub(key, 1, #PREFIX) ~= PREFIX then return false end
  local raw = call('GETRANGE', key, '0', LONGEST_NAME)
  local f = #raw >= NAME_AT - 1 and string.byte(raw) >= 97 and read_metadata(key)
  return f and f.expires ~= nil
end

local done = 0
for k = 4, #ARGV do
  if done > 0 and exhausted() then break end
  local key = ARGV[k]
  if call('ZSCORE', PREFIX .. 'expiring', key) and not expires(key) then
    note('expiring has ' .. string.gsub(key, '^.*:', '') .. ': there is no such job that expires')
    if REPAIR then call('ZREM', PREFIX .. 'expiring', key) end
  end
  done, work = done + 1, work + 4
end
return { done, wrong }
