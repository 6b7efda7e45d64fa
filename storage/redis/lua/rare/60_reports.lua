-- The operations that need the counters of the batch so far, which are not
-- written yet, and so write them first.

local function tube_exists(tube)
  return tube == 'default' or call('ZSCORE', PREFIX .. 'tubes', tube)
end

-- resume ends the pause of a tube, if it has one.
local function resume(tube)
  call('ZREM', PREFIX .. 'timers', 'p:' .. tube)
  call('HDEL', PREFIX .. 'paused', tube)
  paused[tube] = false
  sum.changed = true
  roused[tube] = (roused[tube] or 0) + call('ZCARD', READY .. tube) + joined_in(tube)
end

-- pause tube seconds → 1; 0 seconds end a pause
OPS['pause'] = function(i)
  local tube, seconds = ARGV[i], tonumber(ARGV[i + 1])
  flush()
  if not tube_exists(tube) then
    answer(0)
    return i + 2
  end
  sum.changed = true
  count_up(PREFIX .. 'tube:' .. tube, 'pauses', 1)
  answer(1)
  if seconds == 0 then
    resume(tube)
    return i + 2
  end
  local till = NOW_UP + seconds * 1000
  call('HSET', PREFIX .. 'paused', tube, format('%.0f %.0f', seconds, till))
  call('ZADD', PREFIX .. 'timers', format('%.0f', till), 'p:' .. tube)
  paused[tube], any_paused = true, true
  due_at(till)
  return i + 2
end

-- attend tube using watching waiting → 1: what connections of this instance do
OPS['attend'] = function(i)
  local tube = ARGV[i]
  sum.changed = true
  flush()
  attended[tube] = nil
  if ARGV[i + 1] == '0' and ARGV[i + 2] == '0' then
    call('HDEL', PREFIX .. 'attending:' .. tube, ME)
    call('ZREM', PREFIX .. 'waiting:' .. tube, ME)
    drop_unused(tube)
  else
    open_tube(tube)
    call('HSET', PREFIX .. 'attending:' .. tube, ME, ARGV[i + 1] .. ' ' .. ARGV[i + 2] .. ' ' .. ARGV[i + 3])
  end
  answer(1)
  return i + 4
end

-- left is how long until a time, in ms, rounded down so far that whole seconds
-- begin at one less, as in beanstalkd.
local function left(at)
  return at - NOW_UP - 1
end

-- reserved_until finds the deadline of a reserved job, whichever instance has
-- it; NOW if none has.
local function reserved_until(member)
  local instances = call('ZRANGE', PREFIX .. 'instances', '0', '-1')
  table.insert(instances, 1, ME)
  for _, inst in ipairs(instances) do
    local at = call('ZSCORE', PREFIX .. 'reserved:' .. inst, member)
    if at then return tonumber(at) end
    local group = run_by_bytes(PREFIX .. 'groups:' .. inst, member, partitions)
    if group then return tonumber(string.match(group, '%d+$')) end
  end
  return NOW
end

-- job-stats id → 1, state, age, left (ms), record as far as the name
OPS['job-stats'] = function(i)
  local j = load(ARGV[i])
  if not j then
    answer(0)
    return i + 1
  end
  locate(j, false)
  local ends = 0
  if j.state == 'V' then
    ends = left(reserved_until(j.member))
  elseif j.state == 'D' then
    ends = left(tonumber(call('ZSCORE', PREFIX .. 'delayed:' .. j.tube, j.member) or NOW))
  end
  answer(1)
  answer_text(j.state)
  answer(math.max(NOW - j.created, 0))
  answer(ends)
  answer_text(sub(j.raw, 1, NAME_AT - 1 + #j.tube))
  return i + 1
end

-- tube-stats tube → 1, urgent, ready, delayed, buried, total, deletes, pauses,
-- pause (seconds), left (ms), and using, watching, waiting elsewhere
OPS['tube-stats'] = function(i)
  local tube = ARGV[i]
  flush()
  if not tube_exists(tube) then
    answer(0)
    return i + 1
  end
  answer(1)
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'pauses', 'joined', 'joined-urgent')
  for k = 1, 5 do have[k] = tonumber(have[k] or 0) end
  answer(call('ZCOUNT', READY .. tube, '-inf', '(' .. URGENT_BELOW) + have[5])
  answer(call('ZCARD', READY .. tube) + have[4])
  for _, queue in ipairs({ 'delayed:', 'buried:' }) do answer(call('ZCARD', PREFIX .. queue .. tube)) end
  for k = 1, 3 do answer(have[k]) end
  local seconds, till = string.match(call('HGET', PREFIX .. 'paused', tube) or '0 0', '(%d+) (%d+)')
  answer(tonumber(seconds))
  answer(math.max(left(tonumber(till)), 0))
  local all_of = { 0, 0, 0 }
  local all = call('HGETALL', PREFIX .. 'attending:' .. tube)
  for k = 1, #all, 2 do
    if all[k] ~= ME then
      local place = 0
      for n in string.gmatch(all[k + 1], '%d+') do
        place = place + 1
        all_of[place] = all_of[place] + tonumber(n)
      end
    end
  end
  for k = 1, 3 do answer(all_of[k]) end
  return i + 1
end

-- held counts what an instance has reserved, but for what is in groups.
local function held(inst)
  return call('ZCARD', PREFIX .. 'reserved:' .. inst) - call('ZCARD', PREFIX .. 'groups:' .. inst)
end

-- stats silence → urgent, ready, reserved, delayed, buried, total, timeouts,
-- tubes, instances: this one, and those that gave a sign of life in the last
-- silence ms
OPS['stats'] = function(i)
  flush()
  local reserved, living = held(ME), 1
  local seen = call('ZRANGE', PREFIX .. 'instances', '0', '-1', 'WITHSCORES')
  for k = 1, #seen, 2 do
    if seen[k] ~= ME then
      reserved = reserved + held(seen[k])
      if tonumber(seen[k + 1]) > NOW - ARGV[i] then living = living + 1 end
    end
  end
  local have = call('HMGET', COUNTS, 'urgent', 'delayed', 'buried', 'ids', 'deleted', 'timeouts', 'skipped', 'grouped')
  for k = 1, 8 do have[k] = tonumber(have[k] or 0) end
  -- Jobs that the batch has still to put have their numbers already.
  local total = have[4] - have[7] - (tonumber(ARGV[4]) - sum.puts)
  reserved = reserved + have[8] + sum.grouped
  have[1], have[2], have[3] = have[1] + sum.urgent, have[2] + sum.delayed, have[3] + sum.buried
  answer(have[1])
  answer(total - have[5] - sum.deleted - have[2] - have[3] - reserved)
  answer(reserved)
  answer(have[2])
  answer(have[3])
  answer(total)
  answer(have[6] + sum.timeouts)
  answer(call('ZCARD', PREFIX .. 'tubes'))
  answer(living)
  return i + 1
end

-- tubes from limit → where the next part goes on, 0 if that was the last; n, names…:
-- those of up to limit tubes. The list is read from its end, where from is -1: when a
-- tube is dropped the last one takes its place, so that none is missed, though some
-- may come twice.
OPS['tubes'] = function(i)
  flush()
  local from = tonumber(ARGV[i])
  if from < 0 then from = call('ZCARD', PREFIX .. 'tubes') end
  local low = math.max(from - ARGV[i + 1], 0)
  local names = from > 0 and call('ZRANGE', PREFIX .. 'tubes', format('%d', low), format('%d', from - 1)) or {}
  answer(low)
  answer(#names)
  for _, name in ipairs(names) do answer_text(name) end
  return i + 2
end
