-- Checks schedules by their names: whether what is known of one agrees with its record, or whether
-- what is known belongs to a record. With repair faults are corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions, not used
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  where the names are from: schedules, schedule-names, schedule-dues, schedule-claims or
--          schedule-bodies; or broken, for those whose records are known to be
-- ARGV[5…] names
--
-- Reply: how many of these were checked, from the first one on, at least one; and a text for
-- each fault

--include data: keys
--include data: heartbeat-timeout
--include check/start.lua

local FROM = ARGV[4]
local SCHEDULES, BODIES = PREFIX .. 'schedules', PREFIX .. 'schedule-bodies'
local NAMES, DUES, CLAIMS = PREFIX .. 'schedule-names', PREFIX .. 'schedule-dues', PREFIX .. 'schedule-claims'

-- check_due checks where a record is that is due then, in ms, or '-' for never.
local function check_due(name, due)
  local at, claimed = call('ZSCORE', DUES, name), call('ZSCORE', CLAIMS, name)
  local is_right = at and not claimed and tonumber(at) == tonumber(due)
  if due == '-' then is_right = not at and not claimed end
  if is_right or claimed and not at and due ~= '-' then return end
  note('schedule ' .. name .. ': by its record it is due at ' .. due .. ', and that is not so')
  if not REPAIR then return end
  call('ZREM', CLAIMS, name)
  if due == '-' then
    call('ZREM', DUES, name)
  else
    call('ZADD', DUES, due, name)
  end
end

-- check_record checks a record. If it was removed meanwhile nothing is wrong.
local function check_record(name)
  local version, due, size, rest = string.match(call('HGET', SCHEDULES, name) or '', '^(%d+) (%S+) (%d+) (.*)$')
  if not version then return end
  local is = #(call('HGET', BODIES, name) or '')
  if tonumber(size) ~= is then
    note(string.format('schedule %s: by its record its body has %s bytes, and it has %d', name, size, is))
    if REPAIR then call('HSET', SCHEDULES, name, string.format('%s %s %d %s', version, due, is, rest)) end
  end
  if not call('ZSCORE', NAMES, name) then
    note('schedule ' .. name .. ' is not in schedule-names')
    if REPAIR then call('ZADD', NAMES, '0', name) end
  end
  check_due(name, due)
end

local function drop(name)
  call('HDEL', SCHEDULES, name)
  call('HDEL', BODIES, name)
  for _, set in ipairs({ NAMES, DUES, CLAIMS }) do call('ZREM', set, name) end
end

-- check_entry checks whether an entry of FROM belongs to a record.
local function check_entry(name)
  local there
  if FROM == 'schedule-bodies' then
    there = call('HEXISTS', BODIES, name) == 1
  else
    there = call('ZSCORE', PREFIX .. FROM, name)
  end
  if not there or call('HEXISTS', SCHEDULES, name) == 1 then return end
  note(FROM .. ' has ' .. name .. ': there is no such schedule')
  if REPAIR then drop(name) end
end

local done = 0
for k = 5, #ARGV do
  if done > 0 and exhausted() then break end
  if FROM == 'schedules' then
    check_record(ARGV[k])
  elseif FROM == 'broken' then
    note('schedule ' .. ARGV[k] .. ': its record is broken')
    if REPAIR then drop(ARGV[k]) end
  else
    check_entry(ARGV[k])
  end
  done, work = done + 1, work + 5
end
return { done, wrong }
