-- Checks members and after-jobs of batches, and the keys that have them: named.lua checks the records. With repair faults
-- are corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions, not used
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  what is checked:
--            members, after
--                     names of batches that have a key which begins so
--            jobs     the name of a batch, and keys in after:BATCH
--            lost     the name of a batch, and ids that are not in members:BATCH
-- ARGV[5…] these
--
-- Reply: how many of the arguments were checked, from the first one on, at least one; and a text for each fault

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include data: metadata

local FROM, RECORDS = ARGV[4], PREFIX .. 'job-batches'

-- check_key checks whether a key about a batch belongs to a record.
local function check_key(name)
  local key = FROM .. ':' .. name
  if call('EXISTS', PREFIX .. key) == 0 or call('HEXISTS', RECORDS, name) == 1 then return end
  note(FROM .. ' has ' .. name .. ': there is no such batch')
  if REPAIR then call('DEL', PREFIX .. key) end
end

-- check_job checks whether a key in after:BATCH is a job that waits for it.
local function check_job(name, key)
  local raw = string.sub(key, 1, #PREFIX) == PREFIX and call('GETRANGE', key, '0', LONGEST_NAME) or ''
  local f = #raw >= NAME_AT - 1 and string.byte(raw) >= 97 and read_metadata(key)
  if f and f.after == name or not call('ZSCORE', PREFIX .. 'after:' .. name, key) then return end
  note('after:' .. name .. ' has ' .. string.gsub(key, '^.*:', '') .. ': no such job waits for it')
  if REPAIR then call('ZREM', PREFIX .. 'after:' .. name, key) end
end

-- check_lost reports a member that is not in the index, if there is still that batch.
local function check_lost(name, id)
  if call('HEXISTS', RECORDS, name) == 0 then return end
  note('members:' .. name .. ' lacks job ' .. id)
  if REPAIR then call('RPUSH', PREFIX .. 'members:' .. name, id) end
end

local first = (FROM == 'jobs' or FROM == 'lost') and 6 or 5
local done = 0
for k = first, #ARGV do
  if done > 0 and exhausted() then break end
  if FROM == 'jobs' then
    check_job(ARGV[5], ARGV[k])
  elseif FROM == 'lost' then
    check_lost(ARGV[5], ARGV[k])
  else
    check_key(ARGV[k])
  end
  done, work = done + 1, work + 5
end
return { done, wrong }
