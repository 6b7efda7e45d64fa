-- Settlements: a batch of jobs has ended, and what waits for it runs or is parked.
--
-- The problem: the members are in all partitions, so none knows whether the batch has ended, and there can be any number of
-- after-jobs. Neither can be looked at in one call.
--
-- So an instance decides (tube.JobBatch), from the records of all partitions, and sends each one a verdict. The partition carries it out
-- only if its record is still the one that was read: `stamp` counts all that could make the verdict wrong, such as a new member. A
-- verdict that comes too late changes nothing, and the record is due again. It is carried out in steps of `limit` jobs; while
-- there are more of them the record stays due, so an instance that dies in between costs only time.
--
-- The invariant: an after-job is in after:BATCH, under a number that says its state, exactly while it waits for the batch or is
-- parked because of it. So each step finds the jobs that it still has to change, and changes none twice.

-- run lets a job run that was held, or parked because of the batch.
local function run(j, f)
  f.after, f.after_void, f.parked = nil, true, NOT_PARKED
  SLOW.save_metadata(j)
  SLOW.start_expiry(j)
  enter(j, 'delayed') -- without a delay it is ready
end

-- park parks a held job.
local function park(j, f, why)
  f.parked = why
  SLOW.save_metadata(j)
  SLOW.note('parked', j.tube, 1)
  enter(j, 'buried')
  add_after(f, j.key, 'buried')
end

-- wait lets a parked job wait for the batch again.
local function wait(j, f)
  f.parked = NOT_PARKED
  SLOW.save_metadata(j)
  B.hold(j, f)
  SLOW.entered_batch(j)
end

-- FATES is what a fate does, and the least numbers of the jobs that it changes in after:BATCH.
local FATES = {
  held = { numbers = {} },
  run = { numbers = { 0, PARKED }, carry_out = run },
  failed = { numbers = { 0 }, carry_out = function(j, f) park(j, f, PARKED_FAILED) end },
  wait = { numbers = { PARKED }, carry_out = wait },
  unsealed = { numbers = { 0 }, carry_out = function(j, f) park(j, f, PARKED_UNSEALED) end },
}

-- settle_job carries out a fate for an after-job of a batch, and returns whether there is that job.
local function settle_job(name, key, fates)
  local j = load(key)
  local f = j and j.has_metadata and SLOW.metadata_of(j)
  if not f or f.after ~= name then
    call('ZREM', AFTER .. name, key)
    return false
  end
  j.settled = true
  leave_place(j)
  fates[f.after_all].carry_out(j, f)
  save(j)
  return true
end

-- settle_some does that for up to limit of the jobs that have such a fate, and returns how many.
local function settle_some(name, numbers, fates, limit)
  local n = 0
  for _, key in ipairs(first_after(name, numbers, limit)) do
    if settle_job(name, key, fates) then n = n + 1 end
  end
  return n
end

-- forget removes a record if nothing needs it, and returns whether it has.
local function forget(b)
  if b.pending + b.parked > 0 or call('ZCARD', AFTER .. b.name) > 0 then return false end
  remove_record(b)
  return true
end

-- overtakes is tube.JobBatch.Overtakes; the counts and the TTL that were read begin at i.
local function overtakes(b, i)
  local pending, parked, gone, ttl = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  return b.sealed and b.pending == 0 and (pending ~= 0 or parked ~= b.parked or gone ~= b.gone) or b.gone > 0 and gone == 0 or b.ttl ~= ttl
end

-- settle carries out the settlement whose arguments begin at i, and returns how many jobs it has changed; nil
-- if it is not possible.
local function settle(b, i)
  if format('%.0f', b.stamp) ~= ARGV[i + 1] then return nil end
  if ARGV[i + 4] == '1' then return forget(b) and 0 or nil end
  local verdict, fates, numbers = tonumber(ARGV[i + 2]), { [0] = FATES[ARGV[i + 5]], [1] = FATES[ARGV[i + 6]] }, {}
  local reopens = b.verdict == UNSEALED and verdict ~= UNSEALED -- see tube.JobBatch.Reopens
  for all = 0, 1 do
    if reopens and fates[all] == FATES.held then fates[all] = FATES.wait end
    for _, number in ipairs(fates[all].numbers) do numbers[#numbers + 1] = number + all end
  end
  local n = settle_some(b.name, numbers, fates, tonumber(ARGV[i + 7]))
  local more = first_after(b.name, numbers, 1)[1]
  if b.since == 0 or b.verdict ~= verdict and not (more and reopens) then b.verdict, b.since = verdict, NOW end
  set_due(b, tonumber(ARGV[i + 3]) or math.huge)
  if overtakes(b, i + 8) or more then due_now(b) end
  return n
end

-- job-batches settle: carries out a verdict
--
-- ARGV    'job-batches', 'settle', name, stamp, verdict, due, forget, after, after_all, limit, pending, parked,
--         gone, ttl
--           stamp             of the record; with another one nothing is done
--           due               when it is due next, ms; NEVER for never
--           forget            1 to remove it instead
--           after, after_all  what becomes of such after-jobs, one of FATES
--           limit             how many jobs at most
--           pending … ttl     of the record that the verdict follows from; ttl in ms, 0 if none is said
-- Keys    writes job-batches, -dues and -claims, after:BATCH, the records; moves the jobs from delayed: and buried:TUBE to
--         ready:, delayed: and buried:TUBE; writes timers, counts
-- Answer  1, and how many jobs it has changed; or 0 if nothing was done: then the record, if there is one, is due
function COMMANDS.settle(i)
  local b = record_of(ARGV[i])
  local n = b and settle(b, i)
  answer(n and 1 or 0)
  if n then
    answer(n)
  elseif b then
    due_now(b)
  end
  return i + 12
end
