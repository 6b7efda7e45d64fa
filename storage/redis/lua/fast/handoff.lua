-- take-handoff: direct hand-off: reserves jobs that become ready in this call for clients that
-- already wait, if this instance would be woken for them
--
-- ARGV    'take-handoff', want, n, tubes…
--           want  how many jobs are wanted; 1 if there are several tubes
-- Keys    as take, for each tube; reads waiting:TUBE
-- Answer  how many jobs were taken, which are in the reply's ids and records. If they are
--         fewer than wanted, the instance is registered for a wake-up
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
  -- One of the jobs is left for each other instance that would be woken too.
  local place, others = call('ZRANK', waiting, INSTANCE), call('ZCARD', waiting)
  if place then others = others - 1 end
  if (place or others) < fresh then got = reserve_first(tube, math.min(want, math.max(1, fresh - others))) end
  if got > 0 then
    wakeups[tube] = fresh - got
    if place then call('ZREM', waiting, INSTANCE) end
  end
end
if got < want then
  -- An instance that was served waits behind those that came in the same millisecond.
  local since = format('%.3f', got > 0 and MS or NOW)
  for k = from, last do call('ZADD', PREFIX .. 'waiting:' .. ARGV[k], 'NX', since, INSTANCE) end
end
answers[#answers + 1] = format('%d;', got)
at = last + 1
