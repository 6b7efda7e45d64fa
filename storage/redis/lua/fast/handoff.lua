-- take-handoff: jobs that become ready in this call are reserved in it for sessions that
-- wait, if this instance would be told of them
--
-- ARGV    'take-handoff', want, n, tubes…
--           want  how many jobs are wanted; 1 if there are several tubes
-- Keys    as take, of each tube, and it reads waiting:TUBE
-- Answer  how many jobs were taken, which are in the reply's ids and records. If they are
--         fewer than wanted, the instance is told of the next one
if not reserve_first then define_take() end
write_new_jobs()
local want, from, last, got = tonumber(ARGV[at + 1]), at + 3, at + 2 + ARGV[at + 2], 0
local tube = ARGV[from]
if from < last then
  SLOW = SLOW or slow_functions()
  tube = SLOW.best_of(from, last) or tube
end
local fresh, waiting = wakeups[tube] or 0, PREFIX .. 'waiting:' .. tube
if fresh > 0 and not is_paused(tube) then
  -- Of the jobs one is left for each other instance that would be told, too.
  local place, others = call('ZRANK', waiting, INSTANCE), call('ZCARD', waiting)
  if place then others = others - 1 end
  if (place or others) < fresh then got = reserve_first(tube, math.min(want, math.max(1, fresh - others))) end
  if got > 0 then
    wakeups[tube] = fresh - got
    if place then call('ZREM', waiting, INSTANCE) end
  end
end
if got < want then
  -- Who was served waits behind those who came in the same millisecond.
  local since = format('%.3f', got > 0 and MS or NOW)
  for k = from, last do call('ZADD', PREFIX .. 'waiting:' .. ARGV[k], 'NX', since, INSTANCE) end
end
answers[#answers + 1] = format('%d;', got)
at = last + 1
