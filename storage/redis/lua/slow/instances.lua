-- How instances start, stay alive, end, and notice that others are dead.

local DEAD, DEAD_FOR = 'dead', '86400' -- content of batch:INST of a dead instance, and for how many seconds

-- last_batch returns the beginning of what an instance has recorded: '' if nothing, or DEAD.
local function last_batch(inst)
  return call('GETRANGE', PREFIX .. 'batch:' .. inst, '0', format('%d', #DEAD - 1))
end

-- forget_in removes the refs of an instance from the tubes with ranks low to high - 1. It goes
-- from the last to the first: when a tube is dropped, the very last one takes its place, which
-- is done already.
local function forget_in(inst, low, high)
  if high <= 0 then return end
  local names = call('ZRANGE', PREFIX .. 'tubes', format('%d', low), format('%d', high - 1))
  for k = #names, 1, -1 do
    call('ZREM', PREFIX .. 'waiting:' .. names[k], inst)
    if call('HDEL', PREFIX .. 'refs:' .. names[k], inst) == 1 then
      referenced[names[k]] = nil
      drop_unused(names[k])
    end
  end
end

-- pass_wakeups wakes other instances for the wake-ups that an instance has not read, up to
-- limit. It returns whether those were all. Messages are dropped.
local function pass_wakeups(inst, limit)
  for _ = 1, limit do
    local tube = call('LPOP', PREFIX .. 'wakeups:' .. inst)
    if not tube then return true end
    if sub(tube, 1, 1) ~= '?' then add_wakeup(tube) end
  end
  return false
end

-- reclaim gives back what an instance has reserved, which counts as no delivery, and then forgets the instance: one part of
-- that, about limit jobs or tubes. from is -1 for the first part, else the result of the part
-- before. It returns where the next part continues, nil if there is none.
local function reclaim(inst, limit, from)
  local queue = PREFIX .. 'reserved:' .. inst
  sum.changed = true
  sum.ended_by_server = true
  give_back_first(inst, call('ZRANGE', queue, '0', format('%d', limit - 1)), 1, limit, 'give-back reserved')
  sum.ended_by_server = nil
  if call('EXISTS', queue) == 1 then return from end
  flush()
  if from < 0 then from = call('ZCARD', PREFIX .. 'tubes') end
  local low = math.max(from - limit, 0)
  forget_in(inst, low, from)
  if low > 0 then return low end
  if not pass_wakeups(inst, limit) then return 0 end
  call('DEL', PREFIX .. 'flushed:' .. inst)
  call('ZREM', PREFIX .. 'instances', inst)
  return nil
end

-- reclaim: does a part of what follows after an instance was declared dead
--
-- ARGV    'reclaim', instance, limit, from
--           limit  about how many jobs or tubes
--           from   -1 for the first part, else the answer of the part before
-- Keys    as give-back and set-refs, for that instance; writes wakeups:INST, instances
-- Answer  where the next part continues, -2 if there is none
OPERATIONS['reclaim'] = function(i)
  local inst, limit, from, rest = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), nil
  local last = last_batch(inst)
  if last == '' or last == DEAD then -- else the instance is alive
    rest = reclaim(inst, limit, from)
  end
  answer(rest or -2)
  return i + 3
end

-- resign: does a part of what is necessary when this instance ends
--
-- ARGV    'resign', limit, from: as reclaim
-- Keys    as reclaim, and batch:INST
-- Answer  as reclaim
OPERATIONS['resign'] = function(i)
  local rest = reclaim(INSTANCE, tonumber(ARGV[i]), tonumber(ARGV[i + 1]))
  if not rest then
    call('DEL', BATCH)
    sum.changed = false -- so the call is not recorded
  end
  answer(rest or -2)
  return i + 2
end

-- declare_dead declares an instance dead whose last heartbeat is still the one that was seen,
-- unless that was done before. From then on no call of the instance can follow the last one.
-- It returns whether this instance has to reclaim what that one has reserved: it has to if it
-- has declared it dead, or if nobody has reclaimed it for a long time.
local function declare_dead(inst, seen, for_long)
  if call('ZSCORE', PREFIX .. 'instances', inst) ~= seen then return false end
  local last = last_batch(inst)
  if last ~= '' and last ~= DEAD then
    call('SET', PREFIX .. 'batch:' .. inst, DEAD, 'EX', DEAD_FOR)
    sum.changed = true
    return true
  end
  return for_long
end

-- declare_silent_dead declares n instances dead, which ARGV names from i on, unless they have
-- sent a heartbeat meanwhile. It reclaims a part of what they have reserved, about limit jobs
-- or tubes, and returns the names of those for which there is more to do, and where to
-- continue.
local function declare_silent_dead(i, n, limit)
  local names, rests = {}, {}
  for k = i, i + 3 * (n - 1), 3 do
    local inst = ARGV[k]
    if declare_dead(inst, ARGV[k + 1], ARGV[k + 2] == '1') then
      local rest = -1
      if limit > 0 then rest = reclaim(inst, limit, -1) end
      limit = 0
      if rest then names[#names + 1], rests[#rests + 1] = inst, rest end
    end
  end
  return names, rests
end

-- register records the first call of an instance. In an empty partition it notes that there is
-- no record yet; in an older one, the sizes of records may be unknown, and which policies limit the
-- starts of jobs.
local function register()
  sum.changed = true
  local have = call('HMGET', COUNTS, 'ids', 'skipped', 'deleted')
  if not have[1] or call('EXISTS', PREFIX .. 'instances') == 0 and have[1] - (have[2] or 0) == tonumber(have[3] or 0) then
    call('HSET', COUNTS, 'largest', '0')
  end
  if not limited and call('EXISTS', PREFIX .. 'policies') == 1 then SLOW.groups().note_limiting() end
end

-- claims_back lets no claim end later than one that is made now.
local function claims_back()
  local at = format('%.0f', NOW + CLAIM)
  for _, kind in ipairs(NAMED) do
    local claims = PREFIX .. kind .. '-claims'
    for _, name in ipairs(call('ZRANGEBYSCORE', claims, '(' .. at, '+inf')) do call('ZADD', claims, at, name) end
  end
end

-- notice_step finds out whether the clock was set back since the last heartbeat of any instance. Then what is due stays
-- due, starts are not later than now, and pauses of tubes last no longer than they were to.
local function notice_step()
  local instances, now = PREFIX .. 'instances', format('%.0f', NOW)
  local ahead = call('ZRANGEBYSCORE', instances, '(' .. now, '+inf')
  if not ahead[1] then return end
  for _, inst in ipairs(ahead) do call('ZADD', instances, now, inst) end
  claims_back()
  SLOW.pauses_back()
  SLOW.job_batches().clock_went_back()
  if limited then SLOW.groups().clock_went_back() end
  sum.changed = true
end

-- beat: records a heartbeat of this instance, and declares the instances dead that it has seen
-- silent
--
-- ARGV    'beat', limit, home, sent, history, n, and n times: instance, seen, for long
--           limit     about how many jobs or tubes of dead instances are reclaimed
--           home      1 if DEFAULT_TUBE, which always exists, belongs to this partition
--           sent      when the call was first sent. If that was HELD_UP ms ago or more, or the
--                     clock was set meanwhile, no instance is declared dead: heartbeats of others
--                     may have been delayed too, and come next
--           history   how many bytes the records of ended jobs can have here
--           instance  is declared dead if its last heartbeat is still `seen`, as an answer had it
--           for long  1 if the instance that has declared it dead before may be dead itself
-- Keys    reads and writes instances; writes tubes, batch:INST of dead ones, counts, ended-waits; then as reclaim. If the clock was set
--         back, writes schedule-claims, job-batch-claims, job-batch-dues, rescans, paused, timers; and as tick
-- Answer  for how many instances there is more to do, and for each its name and where reclaim
--         continues; the names and last heartbeats of all instances
local HELD_UP = 1000
OPERATIONS['beat'] = function(i)
  local limit, home, sent, n = tonumber(ARGV[i]), ARGV[i + 1] == '1', ARGV[i + 2], tonumber(ARGV[i + 4])
  if home then open_tube(DEFAULT_TUBE) end
  if registering then register() end
  notice_step()
  if call('HEXISTS', COUNTS, 'batches-back') == 1 then SLOW.job_batches().look_again() end
  if call('HGET', COUNTS, 'history') ~= ARGV[i + 3] then
    call('HSET', COUNTS, 'history', ARGV[i + 3])
    sum.ended().tell_all()
  end
  call('ZADD', PREFIX .. 'instances', format('%.0f', NOW), INSTANCE)
  local names, rests = {}, {}
  if math.abs(NOW - sent) < HELD_UP then names, rests = declare_silent_dead(i + 5, n, limit) end
  answer(#names)
  for k, inst in ipairs(names) do
    answer_text(inst)
    answer(rests[k])
  end
  answer_text(concat(call('ZRANGE', PREFIX .. 'instances', '0', '-1', 'WITHSCORES'), ' '))
  return i + 5 + 3 * n
end

-- ids: returns the last number that was given to a job, after raising it to at least this one
--
-- ARGV    'ids', least
-- Keys    reads and writes counts
-- Answer  the number
OPERATIONS['ids'] = function(i)
  local least, last = tonumber(ARGV[i]), tonumber(call('HGET', COUNTS, 'ids') or 0)
  if last < least then
    count_up(COUNTS, 'skipped', least - last)
    last = count_up(COUNTS, 'ids', least - last)
  end
  answer(last)
  return i + 1
end
