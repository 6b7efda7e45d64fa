OPS.range_of, OPS.add_joined = range_of, add_joined

-- quota_of returns the quotas of a tube as in the hash quotas, false if there are none.
local function quota_of(tube)
  if any_quota == nil then look_for_any() end
  return any_quota and call('HGET', PREFIX .. 'quotas', tube)
end

-- put-delayed: adds jobs to a tube, with a delay
--
-- ARGV    'put-delayed', tube, known, delay, size, n, records…
--           known  1 if the tube certainly exists
--           delay  of all of them, in seconds
--           size   of all bodies, bytes
-- Keys    writes the records, delayed:TUBE, timers, tube:TUBE, counts; reads quotas
-- Answer  nothing: the numbers of the jobs follow from the first one, which each reply has
OPS['put-delayed'] = function(i)
  local tube, known, delay = ARGV[i], ARGV[i + 1] == '1', tonumber(ARGV[i + 2])
  local last, keys, quota = i + 4 + ARGV[i + 4], {}, quota_of(tube)
  for k = i + 5, last do
    if not quota or OPS.admit_record(tube, quota, ARGV[k]) then keys[#keys + 1] = new_job(ARGV[k]) end
  end
  if #keys == 0 then return last + 1 end
  sum.changed = true
  enter_delayed(tube, delay, keys)
  if not quota then
    totals[tube], bytes[tube] = (totals[tube] or 0) + #keys, (bytes[tube] or 0) + ARGV[i + 3]
  end
  if not known then OPS.put_in(tube) end
  return last + 1
end
