-- Operations on batches of jobs.

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

-- say_jobs adds jobs to the reply: how many, and for each its id, the size of its body, and as job-stats does.
local function say_jobs(jobs)
  answer(#jobs)
  for _, j in ipairs(jobs) do
    answer(tonumber(sub(j.key, #PREFIX + 1)))
    answer(size_of(j))
    answer_stats(j)
  end
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
    local f = SLOW.metadata_of(j)
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
-- Answer  where the next part continues, '' if there is none; and as say_jobs
function COMMANDS.members(i)
  local jobs = {}
  local at = walk_members(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), function(j) jobs[#jobs + 1] = j end)
  answer_text(at)
  say_jobs(jobs)
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

-- read first writes what has changed, so that due finds it.
local function read(names)
  local found = {}
  B.write()
  for k, name in ipairs(names) do found[k] = record_of(name) end
  return found
end

local function due_of(b) return b and due_text(b) end

-- say_record adds a record to the reply: its text, and how many after-jobs are held and parked; to that of get also how
-- many of the first after-jobs there are, and those.
local function say_record(b, name, why)
  local set, held, parked = AFTER .. name, 0, 0
  local n = call('ZCARD', set)
  if n > 0 then
    parked = call('ZCOUNT', set, PARKED, PARKED + 1) + call('ZCOUNT', set, ON_ITS_WAY + PARKED, '+inf')
    held = n - parked
  end
  answer_text(pack_record(b))
  answer(held)
  answer(parked)
  if why ~= 'get' then return end
  local jobs = {}
  for _, key in ipairs(first_after(name, { 0, 1, 2, 3 }, MAX_AFTER)) do jobs[#jobs + 1] = load(key) end
  say_jobs(jobs)
end

-- add_latest puts some of the latest in place of the last names, so that a batch that has just ended does not wait for thousands
-- that have ended before.
local function add_latest(names, limit)
  local due, latest = call('ZCOUNT', DUES, '-inf', format('%.0f', NOW)), math.ceil((limit - 1) / 4)
  for k, name in ipairs(call('ZRANGE', DUES, format('%d', due - latest), format('%d', due - 1))) do names[limit + 1 - k] = name end
end

--include named/commands.lua
