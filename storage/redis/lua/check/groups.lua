-- Checks which of these entries of the keys about groups of a tube do not agree with the jobs or with
-- each other. With repair they are corrected; else nothing is changed. What follows from the jobs,
-- lanes:TUBE and eligible:TUBE, is not repaired but deleted: a tick computes it anew, see
-- groups/due.lua.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  the key after the prefix, up to the ':', one of CHECKS
-- ARGV[5]  tube
-- ARGV[6…] members of the sorted set, or fields of the hash. Without any, whether the tube is known as
--          one with groups is checked, by lane-jobs, lane-reserved or lone
--
-- Reply: how many of these were checked, from the first one on, at least one; and a text for each
-- fault

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include data: metadata
--include check/lanes.lua

local kind, tube = ARGV[4], ARGV[5]
local QUEUE = PREFIX .. kind .. ':' .. tube

local function key_of(what) return PREFIX .. what .. ':' .. tube end

-- is_waiting returns whether everything about the lanes of the tube is to be computed anew.
local waiting
local function is_waiting()
  if waiting == nil then waiting = call('HEXISTS', PREFIX .. 'rescans', tube) + call('HEXISTS', PREFIX .. 'rescans', '') > 0 end
  return waiting
end

-- note_lane reports what is wrong with the index of lanes.
local function note_lane(text)
  if is_waiting() then return end
  note(text)
  if REPAIR then
    rebuild(tube)
    waiting = true
  end
end

-- job_of returns the job of a member of lane-jobs: or lane-reserved:TUBE, if it belongs to that group
-- of the tube; else nil.
local function job_of(group, id)
  local raw = call('GETRANGE', PREFIX .. id, '0', LONGEST_NAME)
  if #raw < NAME_AT - 1 then return nil end
  local j = read_header(raw)
  read_group(PREFIX .. id, j)
  return j.tube == tube and j.group == group and j or nil
end

-- is_pending returns whether a job is on its way to another tube.
local function is_pending(id) return call('HEXISTS', PREFIX .. 'pending', id) == 1 end

local QUEUES = { r = 'lane-ready', d = 'delayed', b = 'buried' }
local CHECKS = {}

CHECKS['lane-jobs'] = function(member)
  local group, letter = string.match(member, '^([^%z]+)%z([rdb])')
  local id = sub(member, -ID_LENGTH)
  local j = group and job_of(group, id)
  local right = j and call('ZSCORE', key_of(QUEUES[letter]), PREFIX .. id) and member == lane_name(j, letter, id)
  if not right then
    note('lane-jobs:' .. tube .. ' has ' .. id .. ': the job is not in that state and group')
    if REPAIR then call('ZREM', QUEUE, member) end
    return
  end
  if letter == 'r' and call('HEXISTS', key_of('lanes'), group) == 0 then
    note_lane('tube ' .. tube .. ': group ' .. group .. ' has ready jobs, and is not in lanes:' .. tube)
  end
end

CHECKS['lane-reserved'] = function(member)
  local group, id = string.match(member, '^([^%z]+)%z'), sub(member, -ID_LENGTH)
  local j = group and job_of(group, id)
  local right = j and STATE[j.letter] == 'ready' and not call('ZSCORE', key_of('lane-ready'), PREFIX .. id)
  if not right then
    note('lane-reserved:' .. tube .. ' has ' .. id .. ': the job is not reserved, or not in that group')
    if REPAIR then call('ZREM', QUEUE, member) end
  end
end

-- read_lane returns FIRST of the record of a group, its entry in eligible:TUBE or '', and whether it is
-- single, see groups/lanes.lua; nil if there is no record.
local function read_lane(group)
  local text = call('HGET', key_of('lanes'), group) or ''
  local kind, entry, first = string.match(text, '^([es])(' .. string.rep('%d', 47) .. ')(%d+)$')
  if kind then return first, entry .. group, kind == 's' end
  kind, first = string.match(text, '^([nt])' .. string.rep('%d', 25) .. '(%d+)$')
  return first, '', kind == 't'
end

-- has_reserved returns whether a group has reserved jobs that are not lone.
local function has_reserved(group)
  return call('ZRANGEBYLEX', key_of('lane-reserved'), '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', '0', '1')[1] ~= nil
end

-- make_ordinary makes a job that was said to be lone an ordinary one of its group. A range that has it is
-- put right by the check of the job.
local function make_ordinary(group, id, j)
  local pri = call('ZSCORE', key_of('lone-ready'), PREFIX .. id)
  if pri then
    call('ZREM', key_of('lone-ready'), PREFIX .. id)
    call('ZADD', key_of('lane-ready'), pri, PREFIX .. id)
    call('ZADD', key_of('lane-jobs'), '0', lane_name(j, 'r', id))
  elseif STATE[j.letter] == 'ready' then
    call('ZADD', key_of('lane-reserved'), '0', group .. '\0' .. id)
  end
end

-- A lone job is the only one of its group that is ready or reserved. One that is not becomes an
-- ordinary one when the group is looked at again.
CHECKS['lone'] = function(group)
  local id = call('HGET', QUEUE, group)
  local j = job_of(group, id)
  if j and STATE[j.letter] == 'ready' and call('HEXISTS', key_of('lanes'), group) == 0 then return end
  note('lone:' .. tube .. ' has ' .. group .. ': its job is not the only one that is ready or reserved')
  if not REPAIR then return end
  call('HDEL', QUEUE, group)
  if j then make_ordinary(group, id, j) end
  rebuild(tube)
end

CHECKS['lanes'] = function(group)
  if group == '' or is_waiting() then return end
  local has, entry, single = read_lane(group)
  if call('HGET', key_of('lanes'), group) == 'x' then has = '' end
  local ready = call('ZRANGEBYLEX', key_of('lane-jobs'), '[' .. group .. '\0r', '(' .. group .. '\0s', 'LIMIT', '0', '2')
  if not has or has == '' and not has_reserved(group) or has ~= sub(ready[1] or '', #group + 3) or single and ready[2] then
    note_lane('lanes:' .. tube .. ' has ' .. group .. ': its jobs are others')
  elseif entry ~= '' and not call('ZSCORE', key_of('eligible'), entry) then
    note_lane('lanes:' .. tube .. ' has ' .. group .. ': it is not in eligible:' .. tube)
  end
end

CHECKS['eligible'] = function(member)
  local group = sub(member, 48)
  local _, entry = read_lane(group)
  if entry ~= member then note_lane('eligible:' .. tube .. ' has ' .. group .. ', which lanes:' .. tube .. ' does not say') end
end

-- look_again lets a tick look at a group.
local function look_again(group)
  call('ZADD', key_of('rechecks'), '0', group)
  call('ZADD', PREFIX .. 'timers', '0', 'g:' .. tube)
end

-- check_due checks that a group will be looked at again.
local function check_due(group)
  if call('ZSCORE', key_of('rechecks'), group) then return end
  note(kind .. ':' .. tube .. ' has ' .. group .. ', which is not in rechecks:' .. tube)
  if REPAIR then look_again(group) end
end

-- check_configured checks that a group for which something was set is listed.
local function check_configured(group)
  if call('ZSCORE', key_of('configured'), group) then return end
  note(kind .. ':' .. tube .. ' has ' .. group .. ', which is not in configured:' .. tube)
  if REPAIR then call('ZADD', key_of('configured'), '0', group) end
end

CHECKS['group-limits'] = function(group)
  local ttl = string.match(call('HGET', QUEUE, group) or '', ' (%d+)$')
  check_configured(group)
  if ttl ~= '0' then check_due(group) end
end

CHECKS['group-pauses'] = function(group)
  check_configured(group)
  check_due(group)
end

CHECKS['configured'] = function(group)
  if call('HEXISTS', key_of('group-limits'), group) + call('HEXISTS', key_of('group-pauses'), group) > 0 then return end
  note('configured:' .. tube .. ' has ' .. group .. ', for which nothing is set')
  if REPAIR then call('ZREM', QUEUE, group) end
end

CHECKS['starts'] = function(field) check_due(sub(field, 2)) end

CHECKS['rechecks'] = function(group)
  local due, timer = call('ZSCORE', QUEUE, group), call('ZSCORE', PREFIX .. 'timers', 'g:' .. tube)
  if timer and tonumber(timer) <= tonumber(due) then return end
  note('tube ' .. tube .. ': no timer for its groups')
  if REPAIR then call('ZADD', PREFIX .. 'timers', '0', 'g:' .. tube) end
end

local HASHES = { lanes = true, lone = true, ['group-limits'] = true, ['group-pauses'] = true, starts = true }
local done = 0
for k = 6, #ARGV do
  if done > 0 and exhausted() then break end
  if HASHES[kind] and call('HEXISTS', QUEUE, ARGV[k]) == 1 or not HASHES[kind] and call('ZSCORE', QUEUE, ARGV[k]) then
    CHECKS[kind](ARGV[k])
  end
  done, work = done + 1, work + 6
end
if not ARGV[6] and (kind == 'lane-jobs' or kind == 'lone' or call('EXISTS', key_of('lane-jobs')) == 0) then check_group_tube(tube) end
return { done, wrong }
