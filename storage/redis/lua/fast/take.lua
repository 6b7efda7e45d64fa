-- take: reserves the first ready jobs of a tube
-- lease: leases them
--
-- ARGV    'take', tube, wait, n; or 'lease', tube, wait, n, info
--           wait  1 if a client waits: if there is no job left for it, the instance is
--                 registered for a wake-up
--           n     how many jobs are wanted
--           info  1 if the policies of the tube are wanted
-- Keys    moves members from ready:TUBE to reserved:INST and groups:INST; reads the
--         records, paused; writes waiting:TUBE, tube:TUBE, counts; with limits or groups the keys
--         of the lanes. A lease moves them to leases instead, and writes the records
-- Answer  how many jobs were taken, which are in the reply's ids and records; -1 - how many
--         if there may be more, which are cut. After that, of a lease, the token of each; and if they
--         are wanted and there are jobs, the texts of the policies, a line each
--
-- It is not a function, and needs none of slow/: 2.0 instead of 4.3, and with one job in a call 79 instead of 134. Leases:
-- 8.4 instead of 35.7 with a take-lease for each.
if not reserve_first then define_take() end
if word == 'lease' and not with_token then define_leases() end
leasing = word == 'lease'
write_new_jobs()
local tube, before, left = ARGV[at + 1], sum.takes, tonumber(ARGV[at + 3])
local more, cut = not is_paused(tube), false
while more do
  local got
  if limited then
    SLOW = SLOW or slow_functions()
    if leasing then
      got, more, cut = SLOW.lease_offered(at + 1, left, tokens)
    else
      got, more, cut = SLOW.take_offered(tube, left)
    end
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
if leasing then
  answers[#answers + 1], tokens, leasing = concat(tokens), {}, false
  if ARGV[at] == '1' and got > 0 then
    local ruled = call('EXISTS', PREFIX .. 'policies', PREFIX .. 'prefixes') > 0
    if ruled then SLOW = SLOW or slow_functions() end
    local texts = ruled and SLOW.tube_policies(tube) or ''
    answers[#answers + 1] = #texts .. ':' .. texts
  end
  at = at + 1
end
