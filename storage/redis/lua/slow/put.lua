OPS.range_of, OPS.add_joined = range_of, add_joined

-- limits_of returns the policy of a tube if it can concern a put without tags: if it has quotas
-- or lets jobs expire; else nil or false.
local function limits_of(tube)
  if any_quota == nil then look_for_any() end
  return any_quota and is_limited(tube) and OPS.policy_of(tube)
end
OPS.limits_of = limits_of

-- put-delayed: adds jobs to a tube, with a delay
--
-- ARGV    'put-delayed', tube, known, delay, size, n, records…
--           known  1 if the tube certainly exists
--           delay  of all of them, in seconds
--           size   of all bodies, bytes
-- Keys    writes the records, delayed:TUBE, timers, tube:TUBE, counts; reads quotas, prefix-limits
-- Answer  nothing: the numbers of the jobs follow from the first one, which each reply has
OPS['put-delayed'] = function(i)
  local tube, known, delay = ARGV[i], ARGV[i + 1] == '1', tonumber(ARGV[i + 2])
  local last, keys, limits = i + 4 + ARGV[i + 4], {}, limits_of(tube)
  for k = i + 5, last do
    if not limits or OPS.admit_record(tube, limits, ARGV[k]) then keys[#keys + 1] = new_job(ARGV[k]) end
  end
  if #keys == 0 then return last + 1 end
  sum.changed = true
  enter_delayed(tube, delay, keys)
  if limits then
    OPS.expire_put(keys, limits, delay * 1000)
  else
    totals[tube], bytes[tube] = (totals[tube] or 0) + #keys, (bytes[tube] or 0) + ARGV[i + 3]
  end
  if not known then OPS.put_in(tube) end
  return last + 1
end
