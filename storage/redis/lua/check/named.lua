-- Checks named records of a kind by their names: whether what is known of one agrees with its record, or whether what is
-- known belongs to a record. With repair faults are corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions, not used
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  the kind: schedule or job-batch
-- ARGV[5]  what is checked:
--            records  names. Those of batches are each followed by how many members are pending and parked, or by ''
--                     twice if that is unknown
--            broken   names of records that cannot be read
--            names, dues, claims, bodies
--                     names that are in the key KIND-names and so on
-- ARGV[6…] these
--
-- Reply: how many of the arguments were checked, from the first one on, at least one; and a text for each fault

--include data: keys
--include data: heartbeat-timeout
--include check/start.lua

local KIND, WHAT, BODIES = ARGV[4], ARGV[5], PREFIX .. 'schedule-bodies'
local word, step = 'schedule', 1 -- what the records are called in a text, and how many arguments there are for each
if KIND ~= 'schedule' then word, step = 'batch', 3 end
local RECORDS = PREFIX .. (KIND == 'schedule' and 'schedules' or 'job-batches')
--include shared/named.lua

-- check_due checks where a record is that is due then.
local function check_due(name, due)
  local at, claimed = call('ZSCORE', DUES, name), call('ZSCORE', CLAIMS, name)
  local is_right = at and not claimed and tonumber(at) == tonumber(due)
  if due == NEVER then is_right = not at and not claimed end
  if is_right or claimed and not at and due ~= NEVER then return end
  note(word .. ' ' .. name .. ': by its record it is due at ' .. due .. ', and that is not so')
  if REPAIR then place(name, due) end
end

-- schedule_due checks the size in the record of a schedule, and returns when it is due; nil if it is broken or false.
local function schedule_due(name, text)
  local version, due, size, rest = string.match(text or '', '^(%d+) (%S+) (%d+) (.*)$')
  if not due then return nil end
  local is = #(call('HGET', BODIES, name) or '')
  if tonumber(size) ~= is then
    note(format('schedule %s: by its record its body has %s bytes, and it has %d', name, size, is))
    if REPAIR then call('HSET', RECORDS, name, format('%s %s %d %s', version, due, is, rest)) end
  end
  return due
end

-- batch_due does that for the members of a batch that the record counts. A record that it has corrected is due now, so
-- that it is settled.
local function batch_due(name, text, pending, parked)
  local head, has_pending, has_parked, middle, stamp, verdict, due =
    string.match(text or '', '^(%d+ %d+ [01]) (%d+) (%d+) (%d+ %d+) (%d+) (%d+ %d+) (%S+)$')
  if not head or pending == '' or pending == has_pending and parked == has_parked then return due end
  note(format('batch %s: by its record %s members are pending and %s parked, and it has %s and %s', name, has_pending, has_parked, pending, parked))
  if not REPAIR then return due end
  due = format('%.0f', call('TIME')[1] * 1000)
  call('HSET', RECORDS, name, format('%s %s %s %s %.0f %s %s', head, pending, parked, middle, stamp + 1, verdict, due))
  place(name, due)
  return due
end

-- check_record checks the record whose arguments begin at k. If it was removed meanwhile nothing is wrong.
local function check_record(k)
  local name, due_of = ARGV[k], KIND == 'schedule' and schedule_due or batch_due
  local due = due_of(name, call('HGET', RECORDS, name), ARGV[k + 1], ARGV[k + 2])
  if not due then return end
  if not call('ZSCORE', NAMES, name) then
    note(word .. ' ' .. name .. ' is not in ' .. KIND .. '-names')
    if REPAIR then call('ZADD', NAMES, '0', name) end
  end
  check_due(name, due)
end

local function drop(name)
  remove_name(name)
  if KIND == 'schedule' then call('HDEL', BODIES, name) end
end

-- check_entry checks whether a name in KIND-WHAT belongs to a record.
local function check_entry(name)
  local key = KIND .. '-' .. WHAT
  local there = WHAT == 'bodies' and call('HEXISTS', BODIES, name) == 1 or WHAT ~= 'bodies' and call('ZSCORE', PREFIX .. key, name)
  if not there or call('HEXISTS', RECORDS, name) == 1 then return end
  note(key .. ' has ' .. name .. ': there is no such ' .. word)
  if REPAIR then drop(name) end
end

local done = 0
if WHAT ~= 'records' then step = 1 end
for k = 6, #ARGV, step do
  if done > 0 and exhausted() then break end
  if WHAT == 'records' then
    check_record(k)
  elseif WHAT == 'broken' then
    note(word .. ' ' .. ARGV[k] .. ': its record is broken')
    if REPAIR then drop(ARGV[k]) end
  else
    check_entry(ARGV[k])
  end
  done, work = done + step, work + 5
end
return { done, wrong }
