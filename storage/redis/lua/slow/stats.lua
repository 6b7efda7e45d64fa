-- Statistics of jobs, tubes and the whole partition. The counters of tubes that the call has
-- changed are written first, where they matter.

local function tube_exists(tube)
  return tube == DEFAULT_TUBE or call('ZSCORE', PREFIX .. 'tubes', tube)
end

-- time_left returns how long it is until a time, in ms, less one ms: so the whole seconds that
-- clients see count seconds that have begun, as in beanstalkd.
local function time_left(at)
  return at - NOW_UP - 1
end
SLOW.answer_text, SLOW.time_left, SLOW.write_counters, SLOW.note_due, SLOW.joined_in, SLOW.has_policy, SLOW.size_of = answer_text, time_left, flush, note_due, joined_in, has_policy, size_of

-- reserved_until returns the deadline of a reserved job of any instance, and which that is; NOW
-- and '' if it is not reserved.
local function reserved_until(key)
  local instances = call('ZRANGE', PREFIX .. 'instances', '0', '-1')
  table.insert(instances, 1, INSTANCE)
  for _, inst in ipairs(instances) do
    local at = call('ZSCORE', PREFIX .. 'reserved:' .. inst, key)
    if at then return tonumber(at), inst end
    local set = range_by_bytes(PREFIX .. 'groups:' .. inst, key, partitions)
    if set then return tonumber(string.match(set, '%d+$')), inst end
  end
  return NOW, ''
end

SLOW.reserved_until = reserved_until

-- delayed_left returns what time_left does for a delayed job with that score. One that waits for a batch
-- has no such time, and gets j.held.
local function delayed_left(j, score)
  j.held = score == HELD_SCORE
  return j.held and 0 or time_left(tonumber(score or NOW))
end

-- answer_located answers job-stats for a located job that is due in that many ms.
local function answer_located(j, left)
  answer_text(j.state == 'pending' and 'buried' or j.state)
  answer(math.max(NOW - j.created, 0))
  answer(left)
  answer_text(sub(j.raw, 1, NAME_AT - 1 + #j.tube))
  local held = limited and j.state == 'ready' and SLOW.groups().held(j, group_of(j)) .. ';' or '0;'
  say(j.held and HELD_BY_BATCH or held)
  if j.has_metadata then SLOW.answer_metadata(j) end
end

-- answer_stats answers job-stats, and returns which instance holds the job; '' if none.
local function answer_stats(j)
  locate(j, false)
  local left, inst = 0, ''
  if j.leased then
    left = time_left(tonumber(call('ZSCORE', LEASES, j.key)))
  elseif j.state == 'reserved' then
    left, inst = reserved_until(j.key)
    left = time_left(left)
  elseif j.state == 'delayed' then
    left = delayed_left(j, call('ZSCORE', PREFIX .. 'delayed:' .. j.tube, j.key))
  end
  answer_located(j, left)
  return inst
end

-- job-stats: returns the stats of a job
--
-- ARGV    'job-stats', id
-- Keys    reads the record, ready: and delayed:TUBE, tube:TUBE, instances, and reserved: and
--         groups: of all instances
-- Answer  1, state, age and time left (ms), record up to the name of the tube, why it is held, a
--         tube.Held, and if it has metadata what answer_metadata says, and the instance that holds it, '' if none; 0 if
--         there is no such job
OPERATIONS['job-stats'] = function(i)
  local j = load(ARGV[i])
  answer(j and DONE or NOT_FOUND)
  if j then answer_text(answer_stats(j)) end
  return i + 1
end

-- elsewhere returns how many connections of other instances use, watch and wait for a tube.
local function elsewhere(tube)
  local all, sums = call('HGETALL', PREFIX .. 'refs:' .. tube), { 0, 0, 0 }
  for k = 1, #all, 2 do
    if all[k] ~= INSTANCE then
      local place = 0
      for n in string.gmatch(all[k + 1], '%d+') do
        place = place + 1
        sums[place] = sums[place] + tonumber(n)
      end
    end
  end
  return sums[1], sums[2], sums[3]
end

-- look_at_ready returns how many of the members of a queue of ready jobs are urgent, and the age of
-- its oldest job since its put, in ms; -1 if none is ready. The first member of each priority
-- has its oldest job, because ids grow with time. Only the first PRIORITIES priorities are
-- examined.
local function look_at_ready(key, members)
  local behind, first, oldest = '-inf', nil, nil
  for _ = 1, math.min(PRIORITIES, members) do
    local head = call('ZRANGEBYSCORE', key, behind, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
    if not head[1] then break end
    first = first or tonumber(head[2])
    local created = call('GETRANGE', sub(head[1], 1, KEY_LENGTH), CREATED_FROM, CREATED_TO)
    if #created == 8 then oldest = math.min(oldest or math.huge, (struct.unpack('>I8', created))) end
    behind = '(' .. head[2]
  end
  local urgent = 0
  if first and first < URGENT_BELOW then
    urgent = members == 1 and 1 or call('ZCOUNT', key, '-inf', '(' .. URGENT_BELOW)
  end
  return urgent, oldest and math.max(NOW - oldest, 0) or -1
end

-- pause_of returns for how many seconds a tube is paused, and how many ms are left.
local function pause_of(tube)
  local pause = call('HGET', PREFIX .. 'paused', tube)
  if not pause then return 0, 0 end
  local seconds, till = string.match(pause, '(%d+) (%d+)')
  return tonumber(seconds), math.max(time_left(tonumber(till)), 0)
end

-- answer_tube answers with the stats of a tube. A scrape of the metrics asks for those of a
-- thousand tubes, so nothing is looked up that cannot be there.
local ABOUT_TUBE = string.rep('%.0f;', 15)
local function answer_tube(tube, any_pause)
  if not tube_exists(tube) then return answer(NOT_FOUND) end
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'pauses', 'joined', 'joined-urgent', 'pending', 'expired')
  for k = 1, 7 do have[k] = tonumber(have[k] or 0) end
  local members = call('ZCARD', READY .. tube)
  local urgent, oldest = look_at_ready(READY .. tube, members)
  local in_groups = ready_in_groups(tube)
  for _, queue in ipairs(in_groups > 0 and { 'lane-ready:', 'lone-ready:' } or {}) do
    local n = call('ZCARD', PREFIX .. queue .. tube)
    local more, age = look_at_ready(PREFIX .. queue .. tube, n)
    urgent, oldest, members = urgent + more, math.max(oldest, age), members + n
  end
  local pause, left = 0, 0
  if any_pause then pause, left = pause_of(tube) end
  local using, watching, waiting = elsewhere(tube)
  say(format(ABOUT_TUBE, DONE, urgent + have[5], members + have[4], call('ZCARD', PREFIX .. 'delayed:' .. tube),
    call('ZCARD', PREFIX .. 'buried:' .. tube) + have[6], have[1], have[2], have[3], pause, left, using, watching, waiting, oldest, have[7]))
  local ruled = has_policy(tube)
  answer(ruled and 1 or 0)
  if ruled then
    for _, n in ipairs(call('HMGET', PREFIX .. 'tube:' .. tube, unpack(TIMES))) do answer(tonumber(n or 0)) end
  end
end

-- tube-stats: returns the stats of tubes
--
-- ARGV    'tube-stats', n, tubes…
-- Keys    reads tubes, tube:TUBE, ready:, delayed: and buried:TUBE, paused, refs:TUBE,
--         policies, prefixes, and records
-- Answer  for each tube 1, urgent, ready, delayed, buried, total, deletes, pauses, pause (seconds),
--         time left of it (ms), using, watching and waiting on other instances, age of the oldest
--         ready job (ms), expired, and 1 and the numbers in TIMES if it has a policy, else 0; 0 if there is
--         no such tube
OPERATIONS['tube-stats'] = function(i)
  local last = i + ARGV[i]
  flush()
  local any_pause = call('EXISTS', PREFIX .. 'paused') == 1
  for k = i + 1, last do answer_tube(ARGV[k], any_pause) end
  return last + 1
end

-- limit-stats: returns figures about the groups and limits of tubes, as far as it gets
--
-- ARGV    'limit-stats', n, and for each tube its name, cursor, several
--           cursor   '' at first, else from the answer before
--           several  how many groups with several reserved jobs are known
-- Keys    reads the keys of lanes and lone jobs, group-limits:, group-pauses: and starts:TUBE
-- Answer  for each tube 0 if it has neither groups nor limits, else 1; the cursor with which to continue, ''
--         if there is no more; how many ready jobs the lanes hold for each tube.Held but the first one; why
--         the tube holds all jobs, a tube.Held; how many groups and how many full ones to add; and how
--         many groups with reserved jobs, up to MAX_BUSIEST of which the name and the number follow
local SPEND = 500 -- about as many lanes are looked at for all of the tubes, if each takes commands
OPERATIONS['limit-stats'] = function(i)
  local last, left = i + 3 * ARGV[i], SPEND
  for k = i + 1, last, 3 do
    if limited then
      left = SLOW.groups().answer_figures(ARGV[k], ARGV[k + 1], tonumber(ARGV[k + 2]), left)
    else
      answer(0)
    end
  end
  return last + 1
end

-- add-times: adds the times that jobs of a tube have waited and run since the last report of
-- this instance, if the tube has a policy
--
-- ARGV    'add-times', tube, n, fields and numbers by turns…
--           n  how many fields of TIMES
-- Keys    writes tube:TUBE; reads policies, prefixes
-- Answer  1; 0 if the tube has no policy, or nothing was ever put into it
OPERATIONS['add-times'] = function(i)
  local tube, last = ARGV[i], i + 1 + 2 * ARGV[i + 1]
  local key = PREFIX .. 'tube:' .. tube
  local wanted = has_policy(tube) and call('EXISTS', key) == 1
  answer(wanted and 1 or 0)
  if wanted then
    sum.changed = true
    for k = i + 2, last, 2 do call('HINCRBY', key, ARGV[k], ARGV[k + 1]) end
  end
  return last + 1
end

-- single_reserved returns how many jobs an instance has reserved outside of lease sets.
local function single_reserved(inst)
  return call('ZCARD', PREFIX .. 'reserved:' .. inst) - call('ZCARD', PREFIX .. 'groups:' .. inst)
end

-- stats: returns the stats of the whole partition
--
-- ARGV    'stats', timeout
--           timeout  ms: instances with a heartbeat within it count
-- Keys    reads counts, tubes, instances, leases, reserved: and groups: of all instances, ended-bytes, hung
-- Answer  urgent, ready, reserved, delayed, buried, total, timeouts, tubes, instances, including
--         this one; how many records of ended jobs there are, and how many bytes they count; how many jobs are noted as hung; how many
--         tombstones there are, how many checkpoints, and how many bytes these have
OPERATIONS['stats'] = function(i)
  flush()
  local reserved, living = single_reserved(INSTANCE) + call('ZCARD', LEASES), 1
  local seen = call('ZRANGE', PREFIX .. 'instances', '0', '-1', 'WITHSCORES')
  for k = 1, #seen, 2 do
    if seen[k] ~= INSTANCE then
      reserved = reserved + single_reserved(seen[k])
      if tonumber(seen[k + 1]) > NOW - ARGV[i] then living = living + 1 end
    end
  end
  local have = {}
  local fields = { 'urgent', 'delayed', 'buried', 'ids', 'deleted', 'timeouts', 'skipped', 'grouped', 'held-keys', 'checkpoints', 'checkpoint-bytes' }
  local values = call('HMGET', COUNTS, unpack(fields))
  for k, field in ipairs(fields) do have[field] = tonumber(values[k] or 0) + (sum[field] or 0) end
  -- Jobs that the call has yet to put have their numbers already.
  local total = have.ids - have.skipped - (tonumber(ARGV[4]) - sum.puts)
  reserved = reserved + have.grouped
  answer(have.urgent)
  answer(total - have.deleted - have.delayed - have.buried - reserved)
  answer(reserved)
  answer(have.delayed)
  answer(have.buried)
  answer(total)
  answer(have.timeouts)
  answer(call('ZCARD', PREFIX .. 'tubes'))
  answer(living)
  if sum.any_ended then sum.ended().write() end
  answer(tonumber(call('HGET', COUNTS, 'ended-records') or 0))
  answer(tonumber(call('HGET', PREFIX .. 'ended-bytes', '') or 0))
  answer(call('ZCOUNT', PREFIX .. 'hung', format('%.0f', NOW), '+inf'))
  answer(math.max(have['held-keys'], 0))
  answer(have.checkpoints)
  answer(have['checkpoint-bytes'])
  return i + 1
end

-- tubes: returns a part of the list of tubes. It is read from its end: when a tube is dropped,
-- the last one takes its place, so none is missed, but some can come twice
--
-- ARGV    'tubes', from, limit
--           from   -1 for the first part, else the answer of the part before
--           limit  how many names at most
-- Keys    reads tubes
-- Answer  where the next part begins, 0 if this was the last; how many names, and the names
OPERATIONS['tubes'] = function(i)
  flush()
  local from, limit = tonumber(ARGV[i]), ARGV[i + 1]
  if from < 0 then from = call('ZCARD', PREFIX .. 'tubes') end
  local low = math.max(from - limit, 0)
  local names = from > 0 and call('ZRANGE', PREFIX .. 'tubes', format('%d', low), format('%d', from - 1)) or {}
  answer(low)
  SLOW.answer_names(names)
  return i + 2
end
