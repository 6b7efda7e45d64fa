-- Operations on batches of jobs.

-- answer_record answers with a record: its text, and how many after-jobs are held and parked.
local function answer_record(b)
  local set, held, parked = AFTER .. b.name, 0, 0
  local n = call('ZCARD', set)
  if n > 0 then
    parked = call('ZCOUNT', set, PARKED, PARKED + 1) + call('ZCOUNT', set, ON_ITS_WAY + PARKED, '+inf')
    held = n - parked
  end
  answer_text(pack_record(b))
  answer(held)
  answer(parked)
end

-- first_after returns the keys of up to n after-jobs, those with the smallest ids, of those with these numbers.
local function first_after(name, numbers, n)
  local keys = {}
  for _, number in ipairs(numbers) do
    for _, key in ipairs(call('ZRANGEBYSCORE', AFTER .. name, number, number, 'LIMIT', '0', format('%d', n))) do keys[#keys + 1] = key end
  end
  table.sort(keys)
  for k = #keys, n + 1, -1 do keys[k] = nil end
  return keys
end

-- answer_job answers with a job: its id, the size of its body, and as job-stats does.
local function answer_job(j)
  answer(tonumber(sub(j.key, #PREFIX + 1)))
  answer(size_of(j))
  answer_stats(j)
end

-- job-batches seal: says that a batch gets no more members
--
-- ARGV    'job-batches', 'seal', name, home
--           home  1 in the home partition of the batch, which is sealed last, else 0
-- Keys    writes job-batches, job-batch-names, -dues and -claims
-- Answer  1
function COMMANDS.seal(i)
  seal(make(ARGV[i], 0), ARGV[i + 1] == '1')
  answer(1)
  return i + 2
end

-- job-batches get: returns a record, and its first after-jobs
--
-- ARGV    'job-batches', 'get', name
-- Keys    reads job-batches, after:BATCH, and as job-stats
-- Answer  the time in ms; 0 if there is none, else 1, and as answer_record; how many after-jobs, and for each as
--         answer_job
function COMMANDS.get(i)
  local b = record_of(ARGV[i])
  answer(NOW)
  answer(b and 1 or 0)
  if not b then return i + 1 end
  answer_record(b)
  local jobs = {}
  for _, key in ipairs(first_after(b.name, { 0, 1, 2, 3 }, MAX_AFTER)) do jobs[#jobs + 1] = load(key) end
  answer(#jobs)
  for _, j in ipairs(jobs) do answer_job(j) end
  return i + 1
end

-- job-batches list: returns records in the order of their names
--
-- ARGV    'job-batches', 'list', limit, after
--           limit  how many at most; more than 0
--           after  the name of the last one of the page before; '' for the first page
-- Keys    reads job-batch-names, job-batches, after:BATCH
-- Answer  the time in ms; 1 if there are more, else 0; how many, and for each name, and as answer_record
function COMMANDS.list(i)
  local limit, after, found = tonumber(ARGV[i]), ARGV[i + 1], {}
  local names = call('ZRANGEBYLEX', NAMES, after == '' and '-' or '(' .. after, '+', 'LIMIT', '0', format('%d', limit + 1))
  local more = table.remove(names, limit + 1)
  for _, name in ipairs(names) do found[#found + 1] = record_of(name) or nil end
  answer(NOW)
  answer(more and 1 or 0)
  answer(#found)
  for _, b in ipairs(found) do
    answer_text(b.name)
    answer_record(b)
  end
  return i + 2
end

-- walk calls act with the keys of the index of a batch, from the entry at a place on, of which it skips some.
-- act returns how much work that was. It returns where to continue once that is MOST, 'PLACE OFFSET', or '' at the end.
local function walk(name, place, skip, most, act)
  local done = 0
  while true do
    local entries = call('LRANGE', MEMBERS .. name, format('%d', place), format('%d', place + 99))
    for _, entry in ipairs(entries) do
      local first, n = string.match(entry, '^(%d+);?(%d*)$')
      for k = skip, (tonumber(n) or 1) - 1 do
        if done >= most then return format('%d %d', place, k) end
        done = done + act(PREFIX .. format(ID_FORMAT, first + k * partitions))
      end
      place, skip = place + 1, 0
    end
    if #entries < 100 then return '' end
  end
end

-- walk_members does that for the jobs that are members, from a position of walk, '' at first.
local EXAMINED = 4 -- how many that do not exist are as much work as one that does
local function walk_members(name, at, most, act)
  local place, skip = string.match(at, '^(%d+) (%d+)$')
  B.write()
  return walk(name, tonumber(place or 0), tonumber(skip or 0), most * EXAMINED, function(key)
    local j = load(key)
    if not j or not j.has_metadata then return 1 end
    local f = OPS.metadata_of(j)
    if f and f.batch == name then act(j) end
    return EXAMINED
  end)
end

-- job-batches members: returns some members of a batch that exist
--
-- ARGV    'job-batches', 'members', name, at, limit
--           at     where to continue: the answer of the part before, '' in the first
--           limit  how many at most
-- Keys    reads members:BATCH, and as job-stats
-- Answer  where the next part continues, '' if there is none; how many, and for each as answer_job
function COMMANDS.members(i)
  local jobs = {}
  local at = walk_members(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), function(j) jobs[#jobs + 1] = j end)
  answer_text(at)
  answer(#jobs)
  for _, j in ipairs(jobs) do answer_job(j) end
  return i + 3
end

-- job-batches cancel: seals a batch, and removes some of its members that are not reserved, nor on their way to
-- another tube
--
-- ARGV    'job-batches', 'cancel', name, at, limit: as job-batches members
-- Keys    as job-batches seal, members:BATCH, and as delete-key
-- Answer  0 if there is no such batch; else 1, how many were removed, and where the next part continues, '' if there is
--         none
function COMMANDS.cancel(i)
  local b, n = record_of(ARGV[i]), 0
  answer(b and 1 or 0)
  if not b then return i + 3 end
  seal(b, true)
  local at = walk_members(b.name, ARGV[i + 1], tonumber(ARGV[i + 2]), function(j)
    locate(j, false)
    if j.state == 'reserved' or j.state == 'pending' then return end
    leave_place(j)
    delete(j)
    n = n + 1
  end)
  answer(n)
  answer_text(at)
  return i + 3
end

-- end_claims makes records due again whose claim has ended, at most limit.
local function end_claims(limit)
  for _, name in ipairs(call('ZRANGEBYSCORE', CLAIMS, '-inf', format('%.0f', NOW), 'LIMIT', '0', limit)) do
    local b = record_of(name)
    if b then write_due(b) else call('ZREM', CLAIMS, name) end
  end
end

-- clock_went_back says that all records that are due later are to be looked at: one that was due stays it, and so does one that was
-- not sealed in time by a wrong clock. look_again makes some of them due, the earliest first; the rest follows with the next heartbeats.
local MOST_BACK = 500
function B.clock_went_back()
  call('HSET', COUNTS, 'batches-back', call('ZCOUNT', DUES, '(' .. format('%.0f', NOW), '+inf'))
end
function B.look_again()
  local names = call('ZRANGEBYSCORE', DUES, '(' .. format('%.0f', NOW), '+inf', 'LIMIT', '0', format('%d', MOST_BACK))
  for _, name in ipairs(names) do
    local b = record_of(name)
    if b then due_now(b) end
  end
  if #names < MOST_BACK or count_up(COUNTS, 'batches-back', -MOST_BACK) <= 0 then call('HDEL', COUNTS, 'batches-back') end
  sum.changed = true
end

-- names_due returns the names of up to limit records that are due: the earliest ones, and if there are more some of the latest,
-- so that a batch that has just ended does not wait for thousands that have ended before.
local function names_due(limit)
  local now, latest = format('%.0f', NOW), math.ceil((limit - 1) / 4)
  local names = call('ZRANGEBYSCORE', DUES, '-inf', now, 'LIMIT', '0', format('%d', limit))
  if #names < limit then return names end
  local due = call('ZCOUNT', DUES, '-inf', now)
  for k, name in ipairs(call('ZRANGE', DUES, format('%d', due - latest), format('%d', due - 1))) do names[limit + 1 - k] = name end
  return names
end

-- job-batches due: returns records that are due, the earliest first, and claims them. Of many, also some of the latest. That is not recorded: if
-- the reply is lost, nobody gets them until the claims end
--
-- ARGV    'job-batches', 'due', limit
--           limit  how many at most
-- Keys    reads job-batches, after:BATCH; writes job-batch-dues, job-batch-claims
-- Answer  the time in ms; how many, and for each name, and as answer_record
function COMMANDS.due(i)
  local found = {}
  B.write()
  end_claims(ARGV[i])
  for _, name in ipairs(names_due(tonumber(ARGV[i]))) do
    found[#found + 1] = record_of(name) or nil
    call('ZREM', DUES, name)
    if record_of(name) then call('ZADD', CLAIMS, format('%.0f', NOW + CLAIM), name) end
  end
  answer(NOW)
  answer(#found)
  for _, b in ipairs(found) do
    answer_text(b.name)
    answer_record(b)
  end
  if OPS.note_dues('job-batch-dues', 'job-batch-claims') and found[1] then note_due(NOW) end -- there are more
  return i + 1
end
