-- What the checks of jobs and of groups know of lanes.

local sub = string.sub

-- read_group sets j.group, '' if the job has none.
local function read_group(key, j)
  local f = j.letter >= 'a' and read_metadata(key)
  work = work + 1
  j.group, j.after = f and f.group or '', f and f.after
end

-- lane_name returns the member of lane-jobs:TUBE for a job in a state, by its letter there.
local function lane_name(j, letter, id)
  return j.group .. '\0' .. letter .. (letter == 'r' and string.format('%010.0f', j.pri) or '') .. id
end

-- lone_id returns the ID of the lone job of a group, nil if it has none.
local function lone_id(tube, group)
  work = work + 1
  return group ~= '' and call('HGET', PREFIX .. 'lone:' .. tube, group) or nil
end

-- rebuild lets a tick compute everything about the lanes of a tube anew.
local function rebuild(tube)
  call('DEL', PREFIX .. 'lanes:' .. tube, PREFIX .. 'eligible:' .. tube)
  call('HSET', PREFIX .. 'rescans', tube, '')
  call('ZADD', PREFIX .. 'timers', '0', 'g:' .. tube)
end

-- check_group_tube checks that a tube with jobs with groups is known as one.
local function check_group_tube(tube)
  local flags = call('GET', PREFIX .. 'limited') or ''
  if call('EXISTS', PREFIX .. 'lane-jobs:' .. tube, PREFIX .. 'lane-reserved:' .. tube, PREFIX .. 'lone:' .. tube) == 0 then return end
  if call('HEXISTS', PREFIX .. 'group-tubes', tube) == 1 and string.find(flags, 'g') then return end
  note('tube ' .. tube .. ': it is not known that it has jobs with groups')
  if REPAIR then
    call('HSET', PREFIX .. 'group-tubes', tube, '')
    call('SET', PREFIX .. 'limited', 'g' .. string.gsub(flags, 'g', ''))
  end
end

-- lane_letter returns the letter of a job in its lane, by the queue in which it is: x for a reserved
-- one; nil if it is in no lane, because it is on its way to another tube, or lone.
local function lane_letter(queue, is_lone)
  if is_lone then return nil end
  local of = { ['lane-ready'] = 'r', delayed = 'd', buried = 'b', reserved = 'x', leases = 'x' }
  return of[string.match(queue, '^[%l-]+')]
end

-- check_lane checks that the lane of a job knows it, and in the state of its queue only.
local function check_lane(key, j, queue)
  local id, wrong_place = id_text(key), false
  local right = lane_letter(queue, lone_id(j.tube, j.group) == id)
  work = work + 4
  local function look(set, name, is_right)
    local there = call('ZSCORE', PREFIX .. set .. j.tube, name) ~= false
    if there == is_right then return end
    wrong_place = true
    if REPAIR and is_right then call('ZADD', PREFIX .. set .. j.tube, '0', name) end
    if REPAIR and there then call('ZREM', PREFIX .. set .. j.tube, name) end
  end
  for _, letter in ipairs({ 'r', 'd', 'b' }) do look('lane-jobs:', lane_name(j, letter, id), letter == right) end
  look('lane-reserved:', j.group .. '\0' .. id, right == 'x')
  if not wrong_place then return end
  note('job ' .. id .. ': its group ' .. j.group .. ' does not know its state')
  if REPAIR then
    rebuild(j.tube)
    check_group_tube(j.tube)
  end
end
