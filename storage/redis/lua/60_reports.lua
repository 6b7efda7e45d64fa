-- The operations that need the counters of the batch so far, which are not
-- written yet, and so write them first.

-- pause tube seconds → 1
OPS['pause'] = function(i)
  local tube, seconds = ARGV[i], tonumber(ARGV[i + 1])
  flush()
  if not tube_exists(tube) then
    answer(0)
    return i + 2
  end
  local till = NOW_UP + seconds * 1000
  call('HSET', PREFIX .. 'paused', tube, format('%.0f %.0f', seconds, till))
  call('ZADD', PREFIX .. 'timers', till, 'p:' .. tube)
  if paused then paused[tube] = true end
  count(pauses, tube)
  due_at(till)
  answer(1)
  return i + 2
end

-- attend tube using watching waiting → 1: what connections of this instance do
OPS['attend'] = function(i)
  local tube = ARGV[i]
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

-- job-stats id → tube, state, pri, delay, ttr, age, left (ms), 5 counters
OPS['job-stats'] = function(i)
  local j = load(ARGV[i])
  if not j then
    answer(0)
    return i + 1
  end
  answer(1)
  answer(j.tube)
  answer(j.state)
  answer(j.pri)
  answer(j.delay)
  answer(j.ttr)
  answer(math.max(NOW - j.created, 0))
  answer(j.due > 0 and left(j.due) or 0)
  for _, counter in ipairs(COUNTERS) do answer(j[counter]) end
  return i + 1
end

-- tube-stats tube → urgent, ready, delayed, buried, total, deletes, pauses,
-- pause (seconds), left (ms), and using, watching, waiting elsewhere
OPS['tube-stats'] = function(i)
  local tube = ARGV[i]
  flush()
  if not tube_exists(tube) then
    answer(0)
    return i + 1
  end
  answer(1)
  answer(call('ZCOUNT', PREFIX .. 'ready:' .. tube, '-inf', '(' .. URGENT_BELOW))
  for _, queue in ipairs({ 'ready:', 'delayed:', 'buried:' }) do answer(call('ZCARD', PREFIX .. queue .. tube)) end
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'pauses')
  for k = 1, 3 do answer(tonumber(have[k] or 0)) end
  local seconds, till = string.match(call('HGET', PREFIX .. 'paused', tube) or '0 0', '(%d+) (%d+)')
  answer(tonumber(seconds))
  answer(math.max(left(tonumber(till)), 0))
  local sum = { 0, 0, 0 }
  local all = call('HGETALL', PREFIX .. 'attending:' .. tube)
  for k = 1, #all, 2 do
    if all[k] ~= ME then
      local place = 0
      for n in string.gmatch(all[k + 1], '%d+') do
        place = place + 1
        sum[place] = sum[place] + tonumber(n)
      end
    end
  end
  for k = 1, 3 do answer(sum[k]) end
  return i + 1
end

-- stats → urgent, ready, delayed, buried, total, deleted, timeouts, tubes
OPS['stats'] = function(i)
  flush()
  answer(1)
  local have = call('HMGET', PREFIX .. 'counts', 'urgent', 'ready', 'delayed', 'buried', 'total', 'deleted', 'timeouts')
  for k = 1, 7 do answer(tonumber(have[k] or 0)) end
  answer(call('ZCARD', PREFIX .. 'tubes'))
  return i
end

-- tubes → n, names…
OPS['tubes'] = function(i)
  flush()
  local names = call('ZRANGE', PREFIX .. 'tubes', 0, -1)
  answer(#names)
  for _, name in ipairs(names) do answer(name) end
  return i
end
