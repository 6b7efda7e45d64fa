-- How jobs enter and leave lanes. group is that of a job, '' if it has none.

-- entered is called when a job has entered the place of a state, except for ready and reserved.
function G.entered(j, group)
  local t = tube_of(j.tube)
  list_tube(t)
  call('ZADD', t.jobs, '0', waiting_name(group, j.state == 'buried' and 'b' or 'd', sub(j.key, #PREFIX + 1)))
  if j.state == 'buried' and has_hash(t, 'heads') then mark_dirty(t, lane_of(t, group)) end
end

-- enter_ready adds a job of a group to the ready ones.
function G.enter_ready(j, group)
  local t, first = tube_of(j.tube), first_of(j.pri, sub(j.key, #PREFIX + 1))
  list_tube(t)
  becomes_ready(t, lane_of(t, group), first)
  call('ZADD', t.ready, format('%.0f', j.pri), j.key)
  call('ZADD', t.jobs, '0', ready_name(group, first))
end

-- started is called when a job has been reserved, by a move, that was not. Only if it was not seized
-- is that a start.
function G.started(j, group)
  local t = group and tube_of(j.tube) or find_tube(j.tube)
  if not t then return end
  if t.rates and not j.seized then take_tokens(t, '', t.rates, 1) end
  if group then
    local lane, id = lane_of(t, group), sub(j.key, #PREFIX + 1)
    list_tube(t)
    call('ZADD', t.reserved, '0', reserved_name(group, id))
    if j.seized then
      if lane.reserved then lane.reserved = lane.reserved + 1 end
      mark_dirty(t, lane)
    else
      note_start(t, lane, id)
    end
  elseif t.listed and not j.seized and call('EXISTS', READY .. j.tube) == 1 then
    t.plain_turn = next_turn(t)
  end
end

-- leave_ready removes a job of a group from the ready ones.
local function leave_ready(t, lane, j, id)
  local first = first_of(j.pri, id)
  call('ZREM', t.ready, j.key)
  call('ZREM', t.jobs, ready_name(lane.group, first))
  if lane.first == first or lane.single then
    lane.first = (lane.first ~= first or not lane.single) and STALE
    lane.single = false
  end
  mark_dirty(t, lane)
end

-- note_leaving notes that a job of a lane leaves the tube, if anything was set for groups.
local function note_leaving(t, lane)
  if not has_hash(t, 'group-limits') then return end
  t.left = t.left or {}
  t.left[lane] = true
end

-- leave_ordinary removes a job of a group, which is not lone, from the ready or reserved ones.
local function leave_ordinary(t, lane, j)
  local id = sub(j.key, #PREFIX + 1)
  note_leaving(t, lane)
  leave_ready(t, lane, j, id)
  call('ZREM', t.reserved, reserved_name(lane.group, id))
  lane.reserved = false
end

-- left is called when a job has left the place of its state. A ready one of a group has yet to
-- leave it.
function G.left(j, group)
  local t = group and tube_of(j.tube) or find_tube(j.tube)
  if not t then return end
  if j.state == 'reserved' then wakeups[j.tube] = (wakeups[j.tube] or 0) + 1 end
  if not group then return end
  t.thinned = true
  if leave_lone(t, group, j) then return end
  local lane, id = lane_of(t, group), sub(j.key, #PREFIX + 1)
  note_leaving(t, lane)
  if j.state == 'reserved' then
    call('ZREM', t.reserved, reserved_name(group, id))
    lane.reserved = false
    mark_dirty(t, lane)
  elseif j.state == 'ready' then
    leave_ready(t, lane, j, id)
  else
    call('ZREM', t.jobs, waiting_name(group, j.state == 'buried' and 'b' or 'd', id))
    if has_hash(t, 'heads') then mark_dirty(t, lane) end
  end
end

-- freed is called when n reserved jobs without groups have left a tube.
function G.freed(tube, n)
  if find_tube(tube) then wakeups[tube] = (wakeups[tube] or 0) + n end
end

-- may_start returns whether the limits of its lane and tube let a job start.
function G.may_start(j, group)
  local t = find_tube(j.tube)
  if not t then return true end
  if tube_held(t) ~= NOT_HELD then return false end
  if not group then return true end
  local held, _, head = why_held(t, lane_of(t, group))
  return held == NOT_HELD and (not head or head.key == j.key)
end

-- is_ready returns whether a job of a group is ready.
function G.is_ready(j)
  return is_lone_ready(j) or call('ZSCORE', PREFIX .. 'lane-ready:' .. j.tube, j.key) ~= false
end

-- held returns why a ready job is held.
function G.held(j, group)
  local t = find_tube(j.tube)
  if not t then return NOT_HELD end
  if group then
    local held = why_held(t, view_lane(t, group))
    if held ~= NOT_HELD then return held end
  end
  return (tube_held(t))
end

-- count_urgent returns how many of these ready jobs with groups are urgent.
function G.count_urgent(tube, keys)
  local n = 0
  for _, key in ipairs(keys) do
    local pri = call('ZSCORE', PREFIX .. 'lane-ready:' .. tube, key)
    if pri and tonumber(pri) < URGENT_BELOW then n = n + 1 end
  end
  return n
end

-- ready_in returns how many jobs of groups are ready in a tube.
function G.ready_in(tube)
  return call('ZCARD', PREFIX .. 'lane-ready:' .. tube) + call('ZCARD', LONE_READY .. tube)
end

G.find = find_tube
