-- put: adds jobs to a tube, without a delay
--
-- ARGV    'put', tube, known, n, urgent, size, pri, terms, records…
--           known       1 if the tube certainly exists
--           n, urgent   how many jobs there are, and how many of them are urgent
--           size        of all bodies, bytes
--           pri, terms  if they become a range: its priority, and 'PRIORITY;TTR;INST'. Else both
--                       are '', and each record is preceded by its priority
-- Keys    writes the records, ready:TUBE, tube:TUBE, counts; reads quotas, prefix-limits
-- Answer  nothing: the numbers of the jobs follow from the first one, which each reply has
--
-- It is not a function, and needs none of slow/: with one job in a call 62 instead of 127, and instead of 119 as a
-- put-delayed. Ranges: 5.4 instead of 6.8; the takes of such jobs 2.0 instead of 6.7.
local tube, n, pri, last = ARGV[at + 1], tonumber(ARGV[at + 3]), ARGV[at + 6], at + 7
if any_quota == nil then look_for_any() end
if any_quota and is_limited(tube) then
  SLOW = SLOW or slow_functions()
  at = SLOW.put_limited(at + 1)
else
  if limited then
    SLOW = SLOW or slow_functions()
    SLOW.groups().plain_ready(tube)
  end
  if pri ~= '' then
    local first = new_job(ARGV[last + 1])
    for k = last + 2, last + n do new_job(ARGV[k]) end
    call('ZADD', READY .. tube, pri, range_of(first, n, ARGV[at + 7]))
    add_joined(tube, pri, n - 1)
    last = last + n
  else
    local entries = {}
    for k = 1, 2 * n, 2 do
      last = last + 2
      entries[k], entries[k + 1] = ARGV[last - 1], new_job(ARGV[last])
    end
    add_all(READY .. tube, entries)
  end
  sum.changed, sum.urgent = true, sum.urgent + ARGV[at + 4]
  wakeups[tube], bytes[tube] = (wakeups[tube] or 0) + n, (bytes[tube] or 0) + ARGV[at + 5]
  totals[tube] = (totals[tube] or 0) + n
  if ARGV[at + 2] ~= '1' then
    SLOW = SLOW or slow_functions()
    SLOW.put_in(tube)
  end
  at = last + 1
end
