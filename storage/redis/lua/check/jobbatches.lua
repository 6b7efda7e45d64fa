-- Checks batches of jobs by their names: whether what is known of one agrees with its record, or whether what is known
-- belongs to a record. With repair faults are corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions, not used
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  what is checked:
--            records  names; each is followed by how many members are pending and parked, or by '' twice if that is
--                     unknown
--            broken   names of records that cannot be read
--            job-batch-names, job-batch-dues, job-batch-claims, members, after
--                     names that are there, or of keys which begin so
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

local FROM = ARGV[4]
local RECORDS, NAMES = PREFIX .. 'job-batches', PREFIX .. 'job-batch-names'
local DUES, CLAIMS = PREFIX .. 'job-batch-dues', PREFIX .. 'job-batch-claims'

-- check_due checks where a record is that is due then, in ms, or '-' for never.
local function check_due(name, due)
  local at, claimed = call('ZSCORE', DUES, name), call('ZSCORE', CLAIMS, name)
  local is_right = at and not claimed and tonumber(at) == tonumber(due)
  if due == '-' then is_right = not at and not claimed end
  if is_right or claimed and not at and due ~= '-' then return end
  note('batch ' .. name .. ': by its record it is due at ' .. due .. ', and that is not so')
  if not REPAIR then return end
  call('ZREM', CLAIMS, name)
  if due == '-' then
    call('ZREM', DUES, name)
  else
    call('ZADD', DUES, due, name)
  end
end

-- check_record checks a record. If it was removed meanwhile nothing is wrong.
local function check_record(name, pending, parked)
  local head, has_pending, has_parked, middle, stamp, verdict, due =
    string.match(call('HGET', RECORDS, name) or '', '^(%d+ %d+ [01]) (%d+) (%d+) (%d+ %d+) (%d+) (%d+ %d+) (%S+)$')
  if not head then return end
  if not call('ZSCORE', NAMES, name) then
    note('batch ' .. name .. ' is not in job-batch-names')
    if REPAIR then call('ZADD', NAMES, '0', name) end
  end
  if pending ~= '' and (pending ~= has_pending or parked ~= has_parked) then
    note(string.format('batch %s: by its record %s members are pending and %s parked, and it has %s and %s', name, has_pending, has_parked, pending, parked))
    if REPAIR then -- and it is due, so that it is settled
      due = string.format('%.0f', call('TIME')[1] * 1000)
      call('HSET', RECORDS, name, string.format('%s %s %s %s %.0f %s %s', head, pending, parked, middle, stamp + 1, verdict, due))
      call('ZREM', CLAIMS, name)
      call('ZADD', DUES, due, name)
      return
    end
  end
  check_due(name, due)
end

-- check_entry checks whether a name in FROM belongs to a record.
local function check_entry(name)
  local is_key = FROM == 'members' or FROM == 'after'
  local there = is_key and call('EXISTS', PREFIX .. FROM .. ':' .. name) == 1 or not is_key and call('ZSCORE', PREFIX .. FROM, name)
  if not there or call('HEXISTS', RECORDS, name) == 1 then return end
  note(FROM .. ' has ' .. name .. ': there is no such batch')
  if not REPAIR then return end
  if is_key then call('DEL', PREFIX .. FROM .. ':' .. name) else call('ZREM', PREFIX .. FROM, name) end
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
local step = FROM == 'records' and 3 or 1
local done = 0
for k = first, #ARGV, step do
  if done > 0 and exhausted() then break end
  if FROM == 'records' then
    check_record(ARGV[k], ARGV[k + 1], ARGV[k + 2])
  elseif FROM == 'broken' then
    note('batch ' .. ARGV[k] .. ': its record is broken')
    if REPAIR then call('HDEL', RECORDS, ARGV[k]) end
  elseif FROM == 'jobs' then
    check_job(ARGV[5], ARGV[k])
  elseif FROM == 'lost' then
    check_lost(ARGV[5], ARGV[k])
  else
    check_entry(ARGV[k])
  end
  done, work = done + step, work + 5
end
return { done, wrong }
