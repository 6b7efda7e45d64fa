-- Lone jobs. Most groups have one live job at a time. When it is put, and nothing is special about its
-- group or tube, the job is lone: lone:TUBE has its ID by its group, and it is in lone-ready:TUBE, a
-- queue like ready:TUBE with ranges, until it is taken; then only where reserved jobs are. So lone jobs
-- are put, taken and deleted many together, like jobs without groups. Such a job stays lone while it
-- is ready or reserved, and no other one of its group becomes that. Whoever needs the lane of a lone
-- job, with lane_of, gets it as an ordinary one.
--
-- A lone job may start: none of its group is reserved, and limits of rates, strict groups, and what
-- set-group and pause-group set make no job lone. The load of its lane is 0, and the turn its ID and
-- NO_SUB. So the order of lone-ready:TUBE is that in which these lanes come.
--
-- If no job is lone, jobs of as many groups cost: puts 23.7 instead of 10.7, takes 18.3 instead of 5.3, deletes 8.1 instead of
-- 5.3; with 16 in a call 40 instead of 27, 33 instead of 15 and 17 instead of 14. With ten groups of many jobs it makes no
-- difference.

local NO_LOAD = '000000000000'

-- is_simple returns whether the policy of a tube lets jobs be lone, and take them as such.
local function is_simple(t)
  return not t.strict and not t.group_rates and not has_hash(t, 'heads')
end

-- leave_queue removes a lone job from lone-ready:TUBE, and returns whether it was there.
local function leave_queue(t, j)
  if not SLOW.is_in(t.lone_ready, j) then return false end
  if j.range then
    SLOW.leave_range(t.lone_ready, j, true)
  else
    call('ZREM', t.lone_ready, j.key)
  end
  return true
end

-- is_lone returns whether a job is the lone one of its group.
local function is_lone(t, group, key)
  local id = not t.lane[group] and t.listed and call('HGET', t.lone, group)
  return id and PREFIX .. id == key
end

-- is_lone_ready returns whether a job of a group is lone and ready.
local function is_lone_ready(j)
  local t = tube_of(j.tube)
  return is_lone(t, j.group, j.key) and SLOW.is_in(t.lone_ready, j)
end

-- leave_lone makes a lone job leave its group, and returns whether it was one.
local function leave_lone(t, group, j)
  if not is_lone(t, group, j.key) then return false end
  call('HDEL', t.lone, group)
  if j.state == 'ready' then leave_queue(t, { tube = t.name, key = j.key, pri = j.pri }) end
  return true
end

-- unpack_lone makes a lone job, by its ID, an ordinary one of its lane.
function unpack_lone(t, lane, id)
  local key = PREFIX .. id
  local j = SLOW.load(key)
  call('HDEL', t.lone, lane.group)
  sum.changed = true
  if not j then
    call('ZREM', t.lone_ready, key)
  elseif leave_queue(t, j) then
    lane.first, lane.single, lane.turn, lane.reserved = first_of(j.pri, id), true, id .. NO_SUB, 0
    call('ZADD', t.ready, format('%.0f', j.pri), key)
    call('ZADD', t.jobs, '0', ready_name(lane.group, lane.first))
  else
    call('ZADD', t.reserved, '0', reserved_name(lane.group, id))
    lane.reserved = 1
  end
  mark_dirty(t, lane)
end

-- unpack_key makes a job in lone-ready:TUBE, by its key, an ordinary one. It returns its lane; nil if it had none.
local function unpack_key(t, key)
  local j = SLOW.load(key)
  local group = j and SLOW.read_group(j)
  if group and is_lone(t, group, key) then return lane_of(t, group) end
  leave_queue(t, j or { tube = t.name, key = key, pri = 0 })
end

-- unpack_some makes up to limit of the first jobs in lone-ready:TUBE ordinary ones, and returns how many there were.
local function unpack_some(t, limit)
  for n = 1, limit do
    local first = call('ZRANGE', t.lone_ready, '0', '0')[1]
    if not first then return n - 1 end
    unpack_key(t, sub(first, 1, KEY_LENGTH))
  end
  return limit
end

-- view_lane returns the lane of a group, to be looked at. A lone job stays lone.
local function view_lane(t, group)
  local id = not t.lane[group] and t.listed and call('HGET', t.lone, group)
  local j = id and SLOW.load(PREFIX .. id)
  if not j then return lane_of(t, group) end
  local lane = parse_lane(t, group, false)
  local ready = SLOW.is_in(t.lone_ready, j)
  lane.lone, lane.first, lane.reserved, t.counted[lane] = true, ready and first_of(j.pri, id), ready and 0 or 1, true
  return lane
end

-- lone_reserved returns how many lone jobs of a tube are reserved.
local function lone_reserved(t)
  SLOW.write_counters()
  return call('HLEN', t.lone) - call('ZCARD', t.lone_ready) - (call('HGET', PREFIX .. 'tube:' .. t.name, 'joined-lone') or 0)
end

-- is_rescanned returns whether the groups of a tube are still looked at again, see due.lua.
local function is_rescanned(t)
  t.rescans = call('HEXISTS', PREFIX .. 'rescans', t.name) == 1
  return t.rescans
end

-- NONE is what is known of groups, by their index, if nothing was set for any.
local NONE = {}

-- read_taken reads what keeps jobs from being lone that are put into these groups: four tables by the index
-- of a group, in which something true does. It returns nil if none can be lone. first_id is the ID of the
-- first job.
local function read_taken(t, groups, first_id)
  read_turns(t)
  if not is_simple(t) or first_id .. NO_SUB <= t.counter or is_rescanned(t) then return nil end
  return call('HMGET', t.lone, unpack(groups)), call('HMGET', t.lanes, unpack(groups)),
    has_hash(t, 'group-limits') and call('HMGET', PREFIX .. 'group-limits:' .. t.name, unpack(groups)) or NONE,
    has_hash(t, 'group-pauses') and call('HMGET', PREFIX .. 'group-pauses:' .. t.name, unpack(groups)) or NONE
end
