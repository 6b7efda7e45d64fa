-- Puts with tags.

-- A run is jobs that were put and are ready, but are in no queue yet: their numbers are
-- consecutive, and they have the same terms, 'PRIORITY;TTR;'. keys has their keys. enter_run
-- adds them to the queue, as a range if they are enough. It must be called before any other
-- operation on one of them, or on the queue. Or all of them have groups: then their terms can
-- differ, and pris and groups are parallel to keys.
local run = { tube = '', terms = '', keys = {} }

-- enter_groups is the part of enter_run about jobs with groups.
local function enter_groups(tube)
  SLOW.groups().enter_new(tube, run.keys, run.pris, run.groups)
  for _, pri in ipairs(run.pris) do
    if tonumber(pri) < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
  end
  wakeups[tube] = (wakeups[tube] or 0) + #run.keys
  run.keys, run.pris, run.groups = {}, nil, nil
end

local function enter_run()
  local tube, keys, pri = run.tube, run.keys, string.match(run.terms, '^%d+')
  if not keys[1] then return end
  write_new_jobs()
  if run.groups then return enter_groups(tube) end
  SLOW.enter_queue(tube, keys, pri, #keys >= RANGE_FROM and run.terms or nil)
  if tonumber(pri) < URGENT_BELOW then sum.urgent = sum.urgent + #keys end
  wakeups[tube] = (wakeups[tube] or 0) + #keys
  run.keys = {}
end

-- add_to_run adds a job that was put to the run, or begins another run with it.
local function add_to_run(tube, key, terms)
  local last = run.keys[#run.keys]
  if last and (run.groups or run.terms ~= terms or tonumber(sub(key, #PREFIX + 1)) ~= sub(last, #PREFIX + 1) + partitions) then
    enter_run()
  end
  run.tube, run.terms, run.keys[#run.keys + 1] = tube, terms, key
end

-- add_to_groups does that for a job with a group.
local function add_to_groups(tube, key, terms, group)
  if run.keys[1] and not run.groups then enter_run() end
  local n = #run.keys + 1
  run.pris, run.groups = run.pris or {}, run.groups or {}
  run.tube, run.keys[n], run.pris[n], run.groups[n] = tube, key, string.match(terms, '^%d+'), group
end

-- enter_new makes a job that was put, as a ready one, due in that many ms, or at a time by the
-- clock of Redis. It returns the state of the job.
local function enter_new(tube, key, how, ms, terms, group)
  local wait = ms
  if how == 'at' then wait = math.max(ms - NOW, 0) end
  if wait <= 0 and group ~= '' then
    add_to_groups(tube, key, terms, group)
    return 'ready'
  end
  if wait <= 0 then
    add_to_run(tube, key, terms)
    return 'ready'
  end
  write_new_jobs()
  local j = load(key)
  j.group = group ~= '' and group
  wait_for(j, wait)
  return 'delayed'
end

-- enter_held makes a job that was put wait for a batch. It returns its state.
local function enter_held(tube, key, _, ms, _, group, batches)
  write_new_jobs()
  local j = load(key)
  j.group, j.delay = group ~= '' and group, math.min(math.ceil(ms / 1000), 4294967295)
  batches.hold(j)
  save(j)
  return 'delayed'
end

-- TAKE_OVER stands for FOLLOW if the other job has been started.
local TAKE_OVER = 'take over'

-- has_started returns whether a job was ever reserved, since it was last sent back by replay.
local function has_started(j)
  locate(j, false)
  local f = metadata_of(j)
  return j.state == 'reserved' or j.reserves > 0 or f ~= nil and f.deliveries_before > 0
end

-- lose_key takes the key of a job away, without leaving a tombstone.
local function lose_key(j)
  local f = metadata_of(j)
  if not f then return end
  f.key, f.void = '', true
  SLOW.save_metadata(j)
end

-- is_taken finds out whether a put must make no job because its key is taken, by a job or a
-- tombstone, and answers that. other is the job that has the key, nil if there is none; batch that of the put, or nil: a
-- job that has the key and is no member of it is a duplicate. A put of a schedule is only prevented by a job. It returns the
-- outcome and the id of the other job; nil if the key is free.
local function is_taken(tube, key, what, other, batch, scheduled)
  if what == REPLACE or what == TAKE_OVER then return nil end
  local number, state = other and sub(other.key, #PREFIX + 1) or not scheduled and tombstone_of(tube, key), 'gone'
  if not number then return nil end
  if other then
    locate(other, false)
    state = other.state
  end
  local foreign = other and batch and metadata_of(other).batch ~= batch
  local outcome = (what == FAIL or foreign) and PUT_DUPLICATE or PUT_TOMBSTONE
  answer(outcome)
  answer(number)
  answer_text(state)
  return outcome, number
end

-- job_with returns the job of a tube that has a job key, which can be one of the run; nil if
-- there is none.
local function job_with(tube, key)
  local job = by_key(tube, key)
  if job then enter_run() end
  return job and load(job)
end

-- expire_new decides when a job that was put expires, see set_expiry. how and ms are as in
-- enter_new.
local function expire_new(key, own, policy, how, ms)
  if not own and not (policy and policy.expire) then return end
  write_new_jobs()
  local j, wait = load(key), how == 'at' and ms - NOW_UP or ms
  local due = metadata_of(j).after and j.created + j.delay * 1000 or NOW_UP + math.max(wait, 0)
  SLOW.set_expiry(j, own, policy, due)
end

-- NEW_READY is the usual answer.
local NEW_READY = format('%d;0;5:ready', PUT_NEW)

-- put_one carries out one of the puts of put-tagged, whose arguments begin at i. It returns the
-- outcome, and the id of the job that it has made, or that has prevented it.
local function put_one(tube, i, scheduled)
  local key, what, size, record = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 4]), ARGV[i + 9]
  local limits, policy, old, held = limits_of(tube), SLOW.policy_of(tube), job_with(tube, key), 0
  local batches = ARGV[i + 8] ~= '' and SLOW.job_batches().read(ARGV[i + 8])
  if what == 0 and policy then what = policy.on_duplicate end
  if what == FOLLOW and old and has_started(old) then what = TAKE_OVER end
  local outcome, other = is_taken(tube, key, what, old, batches and batches.batch, scheduled)
  if outcome then
    drop_put(record)
    return outcome, other
  end
  if batches and batches.is_sealed() then
    answer(PUT_SEALED)
    drop_put(record)
    return PUT_SEALED, 0
  end
  local replaces = limits and old and what ~= TAKE_OVER
  if limits and not has_room(tube, limits, size, replaces and size_of(old) + (has_reports(old) and SLOW.checkpoint_size(old) or 0)) then
    answer(PUT_REFUSED)
    drop_put(record)
    return PUT_REFUSED, 0
  end
  totals[tube], bytes[tube], sum.changed = (totals[tube] or 0) + 1, (bytes[tube] or 0) + size, true
  local job = new_job(record)
  if what == TAKE_OVER then
    lose_key(old)
  elseif old and remove(old, batches and batches.batch) then
    held = sub(old.key, #PREFIX + 1)
  end
  if key ~= '' then give_key(tube, key, job) end
  if batches then batches.join(job) end
  local enters = batches and batches.after and enter_held or enter_new
  local state = enters(tube, job, ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 5], ARGV[i + 7], batches)
  expire_new(job, tonumber(ARGV[i + 6]), policy, ARGV[i + 2], tonumber(ARGV[i + 3]))
  if held == 0 and state == 'ready' then
    say(NEW_READY)
  else
    answer(PUT_NEW)
    answer(held)
    answer_text(state)
  end
  return PUT_NEW, sub(job, #PREFIX + 1)
end

-- put-tagged: adds jobs with tags to a tube, except for those whose key is taken, or for which
-- the tube has no room
--
-- ARGV    'put-tagged', tube, known, n, and of each put key, on_duplicate, how, ms, size, terms,
--         expire, group, batches, record
--           known         1 if the tube certainly exists
--           key           '' if it has none
--           on_duplicate  a tube.OnDuplicate
--           how, ms       'in' and in how many ms it is due, or 'at' and when
--           size          of the body, bytes
--           terms         'PRIORITY;TTR;'
--           expire        in how many ms it expires from when it is due, 0 for never; '' if the policy says;
--                         negative for the time by the clock of Redis at which it does
--           group         '' if it has none
--           batches       'TTL;ALL;LENGTH:BATCH' and AFTER: of which batch it is a member, with the length of that name,
--                         and after which it runs; TTL in ms, 0 if not said; ALL is 1 for after-all; '' if both are ''
--           record        of a ready job, with metadata
-- Keys    writes the records, ready: or delayed:TUBE, timers, keys:TUBE, key:TUBE KEY, tube:TUBE,
--         counts, and the keys of the lanes; reads policies, quotas; removes the jobs that had the keys, as delete-key; of batches job-batches, after:BATCH, members:BATCH
-- Answer  for each put PUT_NEW, whose number follows from the first one, which each reply has, and
--         the id of the job that was replaced, if it was reserved, else 0, and the state of the
--         new job; PUT_TOMBSTONE or PUT_DUPLICATE, id and state of the other job, 'gone' for a tombstone; or PUT_SEALED or PUT_REFUSED
SLOW.PUT_ARGUMENTS = 10 -- of each put
OPERATIONS['put-tagged'] = function(i)
  local n = tonumber(ARGV[i + 2])
  SLOW.put_tagged(ARGV[i], i + 3, n, ARGV[i + 1] == '1')
  return i + 3 + SLOW.PUT_ARGUMENTS * n
end

-- put_tagged carries out n puts into a tube, whose arguments begin at i; scheduled if they are of a schedule. It
-- returns what put_one returns for the last one.
function SLOW.put_tagged(tube, i, n, known, scheduled)
  local any, outcome, id = false, nil, nil
  for k = i, i + SLOW.PUT_ARGUMENTS * (n - 1), SLOW.PUT_ARGUMENTS do
    outcome, id = put_one(tube, k, scheduled)
    any = any or outcome == PUT_NEW
  end
  enter_run()
  if any and not known then SLOW.put_in(tube) end
  return outcome, id
end

-- count_put counts a put in the results of a schedule, and returns these: put, overlapped, refused, at,
-- nominal, result, id, see tube.ScheduleResults.
function SLOW.count_put(results, nominal, outcome, id)
  local put, overlapped, refused = string.match(results, '^(%d+) (%d+) (%d+)')
  if outcome == PUT_NEW then
    put = put + 1
  elseif outcome == PUT_REFUSED or outcome == PUT_SEALED then
    refused = refused + 1
  else
    overlapped = overlapped + 1
  end
  return format('%.0f %.0f %.0f %.0f %s %d %.0f', put, overlapped, refused, NOW, nominal, outcome, id)
end
