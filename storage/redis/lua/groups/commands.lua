-- Operations on groups.

-- set-group: sets what applies to a group of a tube
--
-- ARGV    'set-group', tube, group, concurrency, rates, weight, ttl
--           concurrency  '' to remove what was set; 0: not set
--           rates        starts in a second, a minute and an hour, as N,N,N; 0: not set
--           ttl          ms; 0: for ever
-- Keys    writes group-limits:TUBE, configured:TUBE, rechecks:TUBE, timers, lanes:TUBE and eligible:TUBE
-- Answer  1
OPERATIONS['set-group'] = function(i)
  local t, group = tube_of(ARGV[i]), ARGV[i + 1]
  local lane = lane_of(t, group)
  local config = own_config(t, lane)
  sum.changed = true
  if ARGV[i + 2] == '' then
    call('HDEL', PREFIX .. 'group-limits:' .. t.name, group)
    config.override = false
  else
    config.override = {
      concurrency = tonumber(ARGV[i + 2]), rates = rates_of(ARGV[i + 3]), weight = tonumber(ARGV[i + 4]), ttl = tonumber(ARGV[i + 5]),
    }
    local ttl = config.override.ttl
    keep_override(t, lane, config.override, ttl > 0 and NOW_UP + ttl or 0)
  end
  is_configured(t, group)
  if lane.first then mark_dirty(t, lane) end
  update_index(t)
  wake_all(t.name)
  answer(1)
  return i + 6
end

-- get-group: returns what set-group has set
--
-- ARGV    'get-group', tube, group
-- Keys    reads group-limits:TUBE
-- Answer  1, concurrency, three rates, weight, and ttl in ms; only 0 if it has set nothing
OPERATIONS['get-group'] = function(i)
  local t = tube_of(ARGV[i])
  local o = override_of(t, lane_of(t, ARGV[i + 1]))
  answer(o and 1 or 0)
  if o then
    answer(o.concurrency)
    for k = 1, #PERIODS do answer(o.rates and o.rates[k] or 0) end
    answer(o.weight)
    answer(o.ttl)
  end
  return i + 2
end

-- pause-group: pauses a group, or ends its pause
--
-- ARGV    'pause-group', tube, group, seconds
--           seconds  0 to end a pause
-- Keys    as set-group, and group-pauses:TUBE
-- Answer  1
OPERATIONS['pause-group'] = function(i)
  local t, group, seconds = tube_of(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2])
  local lane, pauses = lane_of(t, group), PREFIX .. 'group-pauses:' .. t.name
  local config = own_config(t, lane)
  sum.changed = true
  if seconds > 0 then
    config.pause = NOW_UP + seconds * 1000
    call('HSET', pauses, group, format('%.0f', config.pause))
    t['group-pauses'] = true
    recheck_at(t, group, config.pause)
  else
    call('HDEL', pauses, group)
    config.pause = 0
  end
  is_configured(t, group)
  if lane.first then mark_dirty(t, lane) end
  update_index(t)
  if seconds == 0 then wake_all(t.name) end
  answer(1)
  return i + 3
end

-- count_state returns how many jobs of a group are in a state, by its letter.
local function count_state(t, group, letter)
  local low = group .. '\0' .. letter
  return call('ZLEXCOUNT', t.jobs, '[' .. low, '(' .. low .. ':') -- a digit follows, which is less
end

-- ready_of returns how many jobs of a lane are ready.
local function ready_of(t, lane)
  if lane.lone then return lane.first and 1 or 0 end
  return count_state(t, lane.group, 'r')
end

-- answer_group answers with the stats of a group. only_lone says that it has no jobs but a lone one, if any.
local function answer_group(t, group, held_here, only_lone)
  local lane = view_lane(t, group)
  local concurrency, rates, weight = limits_of(t, lane)
  local ready, pause, held = ready_of(t, lane), pause_of(t, lane), NOT_HELD
  if ready > 0 then held = why_held(t, lane) end
  if ready > 0 and held == NOT_HELD then held = held_here end
  SLOW.answer_text(group)
  answer(ready)
  answer(only_lone and 0 or count_state(t, group, 'd'))
  answer(reserved_of(t, lane))
  answer(only_lone and 0 or count_state(t, group, 'b'))
  answer(concurrency)
  for k = 1, #PERIODS do answer(rates and rates[k] or 0) end
  answer(weight)
  answer(pause > 0 and math.max(SLOW.time_left(pause), 0) or 0)
  answer(held)
end

-- is_known returns whether a group has a job, or something was set for it.
local function is_known(t, group)
  if any_job(t, group) then return true end
  local lane = view_lane(t, group)
  return override_of(t, lane) or pause_of(t, lane) > 0
end

-- group-stats: returns the stats of a group
--
-- ARGV    'group-stats', tube, group
-- Keys    reads lane-jobs:TUBE, lane-reserved:TUBE, group-limits:TUBE, group-pauses:TUBE, starts:TUBE, policies
-- Answer  1, name, ready, delayed, reserved, buried, concurrency, three rates, weight, time left of its
--         pause (ms), and why its ready jobs are held, a tube.Held; only 0 if there is no such group
OPERATIONS['group-stats'] = function(i)
  local t, group = tube_of(ARGV[i]), ARGV[i + 1]
  local known = is_known(t, group)
  answer(known and 1 or 0)
  if known then answer_group(t, group, (tube_held(t))) end
  return i + 2
end

-- find-groups: finds groups of a tube whose job is lone, in the order in which Redis has them. It is called
-- until all were looked at
--
-- ARGV    'find-groups', tube, cursor, count, behind, upto
--           cursor        0 for the first part, else the answer of the part before
--           count         about how many to look at
--           behind, upto  only names between these; upto '' for all behind
-- Keys    reads lone:TUBE
-- Answer  the cursor of the next part, 0 if this was the last; how many names, and the names. Some can
--         come twice
OPERATIONS['find-groups'] = function(i)
  local behind, upto, names = ARGV[i + 3], ARGV[i + 4], {}
  local found = call('HSCAN', PREFIX .. 'lone:' .. ARGV[i], ARGV[i + 1], 'COUNT', ARGV[i + 2])
  for k = 1, #found[2], 2 do
    local name = found[2][k]
    if name > behind and (upto == '' or name < upto) then names[#names + 1] = name end
  end
  SLOW.answer_text(found[1])
  SLOW.answer_names(names)
  return i + 5
end

-- next_known returns the first name behind a group of those in ARGV[at … last], and the index after it.
local function next_known(group, at, last)
  while at <= last and ARGV[at] <= group do at = at + 1 end
  return at <= last and ARGV[at] or nil, at
end

-- next_configured returns the first group behind another one for which something was set; nil if there
-- is none.
local function next_configured(t, group)
  return call('ZRANGEBYLEX', PREFIX .. 'configured:' .. t.name, group == '' and '-' or '(' .. group, '+', 'LIMIT', '0', '1')[1]
end

-- list-groups: returns the stats of some groups of a tube, in the order of their names
--
-- ARGV    'list-groups', tube, limit, behind, more, n, names…
--           limit     how many at most
--           behind    the group after which they are; '' for the first ones
--           n, names  groups that find-groups has found, in their order
--           more      1 if it has found others behind these, or may; else 0
-- Keys    as group-stats, and configured:TUBE
-- Answer  for each 1 and as group-stats; then 0, and 1 if these are all, 2 if the next ones are behind the last name
--         that was given and it has found more, else 0
OPERATIONS['list-groups'] = function(i)
  local t, limit, group, more = tube_of(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3] == '1'
  local at, last, held, n, ended = i + 5, i + 4 + ARGV[i + 4], tube_held(t), 0, 0
  local a, b, c = '', '', nil -- the next one of each list, read when the one before was used
  while n < limit and ended == 0 do
    if a and a <= group then a = next_group(t, group) end
    if b and b <= group then b = next_configured(t, group) end
    c, at = next_known(group, at, last)
    group = a and (not b or a < b) and a or b
    group = group and (not c or group < c) and group or c
    if more and not c then ended, group = 2, nil elseif not group then ended = 1 end
    if group and (group == a or is_known(t, group)) then
      n = n + 1
      answer(1)
      answer_group(t, group, held, group ~= a)
    end
  end
  answer(0)
  answer(ended)
  return last + 1
end

-- flush-group: removes some jobs of a group that are ready, delayed or buried
--
-- ARGV    'flush-group', tube, group, limit, last, behind
--           limit   about how many jobs at most
--           last    the largest id of a job to be removed; '' in the first part
--           behind  the member of lane-jobs:TUBE after which to continue; '' in the first part
-- Keys    as flush
-- Answer  how many were removed, and for the next part last and behind, which is '' if nothing is left
OPERATIONS['flush-group'] = function(i)
  local t, group, limit = tube_of(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  lane_of(t, group)
  local last, behind, keys = tonumber(ARGV[i + 3]), ARGV[i + 4], { b = {}, d = {}, r = {} }
  local low = behind == '' and '[' .. group .. '\0' or '(' .. behind
  local members = call('ZRANGEBYLEX', t.jobs, low, '(' .. group .. '\1', 'LIMIT', '0', limit)
  for _, member in ipairs(members) do
    local id = sub(member, -ID_LENGTH)
    local some = keys[sub(member, #group + 2, #group + 2)]
    if tonumber(id) <= (last or math.huge) then some[#some + 1] = PREFIX .. id end
  end
  local count = SLOW.remove_from(t.name, 'buried', keys.b) + SLOW.remove_from(t.name, 'delayed', keys.d)
  count = count + SLOW.remove_from(t.name, 'ready', keys.r)
  if count > 0 then SLOW.gone_from(t.name) end
  answer(count)
  answer(last or SLOW.last_number())
  SLOW.answer_text(#members == tonumber(limit) and members[#members] or '')
  return i + 5
end
