-- take: reserves the first ready jobs of a tube
--
-- ARGV    'take', tube, wait, n
--           wait  1 if a client waits: if there is no job left for it, the instance is
--                 registered for a wake-up
--           n     how many jobs are wanted
-- Keys    moves members from ready:TUBE to reserved:INST and groups:INST; reads the
--         records, paused; writes waiting:TUBE, tube:TUBE, counts; with limits or groups the keys
--         of the lanes
-- Answer  how many jobs were taken, which are in the reply's ids and records; -1 - how many
--         if there may be more, which are cut
if not reserve_first then define_take() end
write_new_jobs()
local tube, before, left = ARGV[at + 1], sum.takes, tonumber(ARGV[at + 3])
local more, cut = not is_paused(tube), false
while more do
  local got
  if limited then
    SLOW = SLOW or slow_functions()
    got, more, cut = SLOW.take_offered(tube, left)
  else
    got, more, cut = reserve_first(tube, left, READY .. tube)
  end
  left = left - got
  more = more and left > 0
end
if left > 0 and not cut and ARGV[at + 2] == '1' then
  if limited then
    SLOW = SLOW or slow_functions()
    SLOW.await_limited(tube)
  end
  call('ZADD', PREFIX .. 'waiting:' .. tube, 'NX', format('%.0f', NOW), INSTANCE)
end
local got = sum.takes - before
answers[#answers + 1] = format('%d;', cut and left > 0 and -1 - got or got)
at = at + 4
