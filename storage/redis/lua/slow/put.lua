-- Puts of many jobs that are alike: they differ in priority, TTR, body and group. Their operations begin with the same
-- arguments, known … terms, which fast/put.lua describes, and those of their own follow. That file is the same for the most
-- frequent of them.
--
-- Each of them could also be a put-tagged, see tagged/put.lua, which looks at each job by itself. The figures are processor
-- time of Redis for a job in µs, as main.lua describes, instead of that with put-tagged:
--
--   put-delayed  8.1 instead of 23
--   put-grouped  12.0 instead of 15.6, and then a take 5.8 instead of 8.9, because only here groups get ranges
--   put-members  7.3 instead of 12.5

SLOW.range_of, SLOW.add_joined = range_of, add_joined

-- limits_of returns the policy of a tube if it can concern a put without tags: if it has quotas
-- or lets jobs expire; else nil or false.
local function limits_of(tube)
  if any_quota == nil then look_for_any() end
  return any_quota and is_limited(tube) and SLOW.policy_of(tube)
end
SLOW.limits_of = limits_of

-- admit makes new jobs of the puts whose arguments begin at i, and whose records, or the priority of the first, at from;
-- but for those that the quotas refuse. It returns keys and, parallel to them, priorities, or that of all as a text;
-- and which of the puts they are, nil for all.
local function admit(i, from, limits, has_metadata)
  local tube, n, pri, keys, which = ARGV[i], tonumber(ARGV[i + 2]), ARGV[i + 5], {}, limits and {}
  local step, pris = pri == '' and 2 or 1, pri == '' and {} or pri
  for k = 1, n do
    local at = from + step * k - 1
    if not limits or SLOW.admit_record(tube, limits, ARGV[at], has_metadata) then
      keys[#keys + 1] = new_job(ARGV[at])
      if step == 2 then pris[#keys] = ARGV[at - 1] end
      if limits then which[#keys] = k end
    end
  end
  return keys, pris, which or nil
end

-- count_urgent returns how many of n jobs with these priorities, as of admit, are urgent.
local function count_urgent(pris, n)
  if type(pris) == 'string' then return tonumber(pris) < URGENT_BELOW and n or 0 end
  local urgent = 0
  for _, pri in ipairs(pris) do
    if tonumber(pri) < URGENT_BELOW then urgent = urgent + 1 end
  end
  return urgent
end

-- put_alike carries out the puts whose arguments begin at i. enter(tube, keys, pris, terms, which) adds new jobs to their
-- queues: terms is nil if they become no range, and the others are those of admit. own has what is special:
--   from          index of the first record, or of its priority
--   delay         in s; nil for ready jobs
--   has_metadata  whether the jobs have metadata
-- It returns the index of the next operation.
function SLOW.put_alike(i, own, enter)
  local tube, n, limits, delay = ARGV[i], tonumber(ARGV[i + 2]), limits_of(ARGV[i]), own.delay
  local keys, pris, which = admit(i, own.from, limits, own.has_metadata)
  if keys[1] then
    sum.changed = true
    enter(tube, keys, pris, not limits and pris == ARGV[i + 5] and ARGV[i + 6] or nil, which)
    if not delay then wakeups[tube] = (wakeups[tube] or 0) + #keys end
    if limits then
      SLOW.expire_put(keys, limits, (delay or 0) * 1000)
      if not delay then sum.urgent = sum.urgent + count_urgent(pris, #keys) end
    else
      totals[tube], bytes[tube] = (totals[tube] or 0) + n, (bytes[tube] or 0) + ARGV[i + 4]
      if not delay then sum.urgent = sum.urgent + ARGV[i + 3] end
    end
    if ARGV[i + 1] ~= '1' then SLOW.put_in(tube) end
  end
  return own.from + (ARGV[i + 5] == '' and 2 or 1) * n
end

-- enter_queue adds jobs without a group to ready:TUBE, with terms as a range. pris is as of admit.
local function enter_queue(tube, keys, pris, terms)
  if limited then SLOW.groups().plain_ready(tube, sub(keys[1], #PREFIX + 1)) end
  if terms then
    call('ZADD', READY .. tube, pris, range_of(keys[1], #keys, terms))
    add_joined(tube, pris, #keys - 1)
    return
  end
  local entries, one = {}, type(pris) == 'string' and pris
  for k, key in ipairs(keys) do entries[2 * k - 1], entries[2 * k] = one or pris[k], key end
  add_all(READY .. tube, entries)
end
SLOW.enter_queue = enter_queue

-- put_limited is the operation put, whose arguments begin at i, for a tube with quotas or whose jobs expire.
function SLOW.put_limited(i) return SLOW.put_alike(i, { from = i + 7 }, enter_queue) end

-- put-delayed: adds jobs to a tube, with a delay
--
-- ARGV    'put-delayed', tube, known, n, urgent, size, pri, terms, delay, records…
--           known … terms  as put; urgent, pri and terms are not used
--           delay          of all of them, in seconds
-- Keys    writes the records, delayed:TUBE, timers, tube:TUBE, counts; reads quotas, prefix-limits
-- Answer  nothing: the numbers of the jobs follow from the first one, which each reply has
OPERATIONS['put-delayed'] = function(i)
  local delay = tonumber(ARGV[i + 7])
  return SLOW.put_alike(i, { from = i + 8, delay = delay }, function(tube, keys) enter_delayed(tube, delay, keys) end)
end

-- put-grouped: adds jobs with groups, and no other tags, to a tube, without a delay
--
-- ARGV    'put-grouped', tube, known, n, urgent, size, pri, terms, groups…, records…
--           known … terms  as put
--           groups         of each job
--           records        of each; if pri is '' each is preceded by the priority
-- Keys    writes the records, tube:TUBE, counts, and the keys of the lanes; reads quotas, prefix-limits
-- Answer  how many ranges the jobs have become, and for each the index of its first job, from 0, and how
--         many jobs it has. The numbers of the jobs follow from the first one, which each reply has
OPERATIONS['put-grouped'] = function(i)
  local first, last, runs = i + 7, i + 6 + ARGV[i + 2], {}
  local function enter(tube, keys, pris, terms, which)
    local groups = { unpack(ARGV, first, last) }
    for k, of in ipairs(which or {}) do groups[k] = ARGV[first + of - 1] end
    for k = #keys + 1, #groups do groups[k] = nil end
    write_new_jobs()
    SLOW.groups().enter_new(tube, keys, pris, groups, terms, runs)
  end
  local following = SLOW.put_alike(i, { from = last + 1, has_metadata = true }, enter)
  answer(#runs / 2)
  for _, run in ipairs(runs) do answer(run) end
  return following
end

-- put-members: adds members of a batch of jobs, without other tags, to a tube, without a delay
--
-- ARGV    'put-members', tube, known, n, urgent, size, pri, terms, name, ttl, records…
--           known … terms  as put
--           name, ttl      of the batch, in ms; 0 if not said
-- Keys    writes the records, ready:TUBE, tube:TUBE, counts, job-batches, members:BATCH, job-batch-names and -dues; reads
--         quotas, prefix-limits
-- Answer  0 if the batch is sealed, and nothing was put; else 1: the numbers of the jobs follow from the first one,
--         which each reply has
OPERATIONS['put-members'] = function(i)
  local batches, name, step = SLOW.job_batches(), ARGV[i + 7], ARGV[i + 5] == '' and 2 or 1
  if batches.is_name_sealed(name) then
    answer(0)
    for k = 1, ARGV[i + 2] do SLOW.drop_put(ARGV[i + 8 + step * k]) end
    return i + 9 + step * ARGV[i + 2]
  end
  answer(1)
  return SLOW.put_alike(i, { from = i + 9, has_metadata = true }, function(tube, keys, pris, terms)
    enter_queue(tube, keys, pris, terms)
    batches.join_all(name, tonumber(ARGV[i + 8]), keys, terms ~= nil)
  end)
end
