-- put-delayed: new jobs of a tube, with a delay
--
-- ARGV    'put-delayed', tube, known, delay, n, records…
--           known  1 if the tube is sure to exist
--           delay  of all of them, in seconds
-- Keys    writes the records, delayed:TUBE, timers, tube:TUBE, counts
-- Answer  nothing: the numbers of the jobs follow from the first one, which each reply has
OPS['put-delayed'] = function(i)
  local tube, known, delay = ARGV[i], ARGV[i + 1] == '1', tonumber(ARGV[i + 2])
  local last, keys = i + 3 + ARGV[i + 3], {}
  for k = i + 4, last do keys[#keys + 1] = new_job(ARGV[k]) end
  sum.changed = true
  enter_delayed(tube, delay, keys)
  totals[tube] = (totals[tube] or 0) + #keys
  if not known then OPS.put_in(tube) end
  return last + 1
end
