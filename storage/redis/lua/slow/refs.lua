-- What instances report about tubes: how many connections use and watch them, and pauses.

-- add_wakeup wakes the next instance that waits for a job of a tube, if there is a job.
local function add_wakeup(tube)
  local any = call('EXISTS', READY .. tube) == 1 or limited and SLOW.groups().ready_in(tube) > 0
  if any then wakeups[tube] = (wakeups[tube] or 0) + 1 end
end

-- pass-wakeup: wakes another instance, because no client of this one needs the job for which it
-- was woken
--
-- ARGV    'pass-wakeup', tube
-- Keys    reads ready:TUBE; writes waiting:TUBE, wakeups:INST
-- Answer  1
OPERATIONS['pass-wakeup'] = function(i)
  add_wakeup(ARGV[i])
  answer(1)
  return i + 1
end

-- set-refs: sets how many connections of this instance use, watch and wait for a tube
--
-- ARGV    'set-refs', tube, using, watching, waiting
-- Keys    writes refs:TUBE, waiting:TUBE, tubes; deletes all keys of the tube if nothing needs it any
--         more
-- Answer  1
OPERATIONS['set-refs'] = function(i)
  local tube, using, watching, waiting = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  sum.changed = true
  flush()
  referenced[tube] = nil
  if using == '0' and watching == '0' then
    call('HDEL', PREFIX .. 'refs:' .. tube, INSTANCE)
    call('ZREM', PREFIX .. 'waiting:' .. tube, INSTANCE)
    drop_unused(tube)
  else
    open_tube(tube)
    call('HSET', PREFIX .. 'refs:' .. tube, INSTANCE, using .. ' ' .. watching .. ' ' .. waiting)
  end
  answer(1)
  return i + 4
end

-- resume ends the pause of a tube, if there is one.
local function resume(tube)
  call('ZREM', PREFIX .. 'timers', 'p:' .. tube)
  call('HDEL', PREFIX .. 'paused', tube)
  paused[tube] = false
  sum.changed = true
  wakeups[tube] = (wakeups[tube] or 0) + call('ZCARD', READY .. tube) + joined_in(tube) + ready_in_groups(tube)
end

-- pauses_back lets no pause of a tube end later than one that begins now.
function SLOW.pauses_back()
  local all = call('HGETALL', PREFIX .. 'paused')
  for k = 1, #all, 2 do
    local seconds, till = string.match(all[k + 1], '(%d+) (%d+)')
    local at = NOW_UP + seconds * 1000
    if tonumber(till) > at then
      call('HSET', PREFIX .. 'paused', all[k], format('%.0f %.0f', seconds, at))
      call('ZADD', PREFIX .. 'timers', format('%.0f', at), 'p:' .. all[k])
      note_due(at)
    end
  end
end

-- pause: pauses a tube, or ends its pause
--
-- ARGV    'pause', tube, seconds
--           seconds  0 to end a pause
-- Keys    writes paused, timers, tube:TUBE; reads tubes, ready:TUBE
-- Answer  1; 0 if there is no such tube
OPERATIONS['pause'] = function(i)
  local tube, seconds = ARGV[i], tonumber(ARGV[i + 1])
  flush()
  if not tube_exists(tube) then
    answer(NOT_FOUND)
    return i + 2
  end
  sum.changed = true
  count_up(PREFIX .. 'tube:' .. tube, 'pauses', 1)
  answer(DONE)
  if seconds == 0 then
    resume(tube)
    return i + 2
  end
  local till = NOW_UP + seconds * 1000
  call('HSET', PREFIX .. 'paused', tube, format('%.0f %.0f', seconds, till))
  call('ZADD', PREFIX .. 'timers', format('%.0f', till), 'p:' .. tube)
  paused[tube], any_paused = true, true
  note_due(till)
  return i + 2
end
