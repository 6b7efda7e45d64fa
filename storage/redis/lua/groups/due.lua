-- What is due in a tube: rechecks:TUBE has its groups, '' for the tube itself, by the time when they
-- must be looked at again. rescans has the tubes of which all groups must be, because a policy has
-- changed, each with the last group that was, if any; or because fsck has repaired it. At '' it has how
-- far the tubes were looked at after a change of the policy of a pattern, see policies.lua.

-- any_job returns whether a group has a job.
local function any_job(t, group)
  local low, high = '[' .. group .. '\0', '(' .. group .. '\1'
  return call('HGET', t.lone, group) or call('ZRANGEBYLEX', t.jobs, low, high, 'LIMIT', '0', '1')[1] or call('ZRANGEBYLEX', t.reserved, low, high, 'LIMIT', '0', '1')[1]
end

-- is_configured updates whether set-group or pause-group has set anything for a group.
local function is_configured(t, group)
  if call('HEXISTS', PREFIX .. 'group-limits:' .. t.name, group) + call('HEXISTS', PREFIX .. 'group-pauses:' .. t.name, group) > 0 then
    call('ZADD', PREFIX .. 'configured:' .. t.name, '0', group)
  else
    call('ZREM', PREFIX .. 'configured:' .. t.name, group)
  end
end

-- drop_override lets what set-group has set for a lane vanish if it is time.
local function drop_override(t, lane)
  local o = override_of(t, lane)
  if not o or o.ttl == 0 then return end
  if o.gone > NOW then
    recheck_at(t, lane.group, o.gone)
  elseif any_job(t, lane.group) then
    keep_override(t, lane, o, NOW_UP + o.ttl)
  else
    call('HDEL', PREFIX .. 'group-limits:' .. t.name, lane.group)
    own_config(t, lane).override = false
    is_configured(t, lane.group)
  end
end

-- drop_pause ends the pause of a lane if it is time.
local function drop_pause(t, lane)
  if pause_of(t, lane) > 0 then
    recheck_at(t, lane.group, lane.config.pause)
  elseif lane.config.pause > 0 then
    call('HDEL', PREFIX .. 'group-pauses:' .. t.name, lane.group)
    lane.config.pause = 0
    is_configured(t, lane.group)
  end
end

-- drop_starts forgets starts of a group whose tokens are back.
local function drop_starts(t, group)
  for k in ipairs(PERIODS) do
    if has_hash(t, 'starts') and call('HEXISTS', PREFIX .. 'starts:' .. t.name, k .. group) == 1 then
      entries_of(t, group, k)
      t.windows[group].changed[k] = true
    end
  end
end

-- recheck looks at groups of a tube, or with '' at the tube.
local function recheck(t, groups)
  for _, group in ipairs(groups) do
    drop_starts(t, group)
    if group ~= '' then
      local lane = lane_of(t, group)
      drop_pause(t, lane)
      drop_override(t, lane)
      if lane.first then mark_dirty(t, lane) end
    end
  end
end

-- group_behind returns the group of the first member of a sorted set behind a group; nil if there is
-- none.
local function group_behind(set, group)
  local member = call('ZRANGEBYLEX', set, group == '' and '-' or '(' .. group .. '\1', '+', 'LIMIT', '0', '1')[1]
  return member and string.match(member, '^[^%z]+')
end

-- next_group returns the group of a tube that follows another one and has a job; nil if there is none.
local function next_group(t, group)
  local a, b = group_behind(t.jobs, group), group_behind(t.reserved, group)
  return a and (not b or a < b) and a or b
end

-- rescan looks at up to limit groups of a tube, from where the last one has ended, and returns how
-- many. What the index says of them is computed from the jobs. First the jobs become ordinary ones that
-- must not be lone any more.
local function rescan(t, limit)
  local group = call('HGET', PREFIX .. 'rescans', t.name) or ''
  local unpacked = is_simple(t) and 0 or unpack_some(t, limit)
  for n = unpacked + 1, limit do
    group = next_group(t, group)
    if not group then
      call('HDEL', PREFIX .. 'rescans', t.name)
      return n
    end
    local lane = lane_of(t, group)
    lane.first, lane.reserved = STALE, false
    if has_ready(t, lane) and lane.turn == NO_TURN then lane.turn = next_turn(t) end
    mark_dirty(t, lane)
  end
  call('HSET', PREFIX .. 'rescans', t.name, group)
  return limit
end

-- set_timer sets the timer of a tube.
local function set_timer(t)
  local first = tonumber(call('ZRANGE', PREFIX .. 'rechecks:' .. t.name, '0', '0', 'WITHSCORES')[2])
  if call('HEXISTS', PREFIX .. 'rescans', t.name) == 1 then first = NOW end
  if first then
    call('ZADD', PREFIX .. 'timers', format('%.0f', first), 'g:' .. t.name)
    SLOW.note_due(first)
  else
    call('ZREM', PREFIX .. 'timers', 'g:' .. t.name)
  end
end

-- fire does up to limit things that are due in a tube, and returns how many. A repair of fsck can
-- have removed the tube from those that have groups, so that is noted again.
function G.fire(tube, limit)
  if tube == '' then return G.rescan_tubes(limit) end
  local t, queue = tube_of(tube), PREFIX .. 'rechecks:' .. tube
  sum.changed = true
  local groups = call('ZRANGEBYSCORE', queue, '-inf', format('%.0f', NOW), 'LIMIT', '0', format('%d', limit))
  if groups[1] then call('ZREM', queue, unpack(groups)) end
  local n = #groups
  recheck(t, groups)
  if call('HEXISTS', PREFIX .. 'rescans', tube) == 1 then
    n = n + rescan(t, math.max(limit - n, 1))
    if call('EXISTS', t.jobs, t.reserved, t.lone) > 0 then list_tube(t) end
  end
  update_index(t)
  set_timer(t)
  wake_all(tube)
  return n
end

-- begin_rescan looks at the groups of a tube again, up to limit of them now, and wakes clients. It returns
-- how many it has looked at.
local function begin_rescan(tube, limit)
  local t, n = find_tube(tube), 0
  if t and t.listed then
    call('HSET', PREFIX .. 'rescans', tube, '')
    t.rescans = nil
    if limit > 0 then n = rescan(t, limit) end
    update_index(t)
    set_timer(t)
  end
  wake_all(tube)
  return n
end
