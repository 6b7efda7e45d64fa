-- Puts of members and after-jobs.

local putting = {} -- what B.read has read

-- read reads the argument batches of a put with tags, and returns an object for that put:
--   batch, after  the names; nil if there is none
--   is_sealed()   whether the batch is sealed
--   join(key)     counts the new job as a member, and makes the records
--   hold(j)       puts it, which has no place yet, into that of jobs that wait; with f, the metadata of a job, one that was put before
function B.read(text)
  local ttl, all, length, names = string.match(text, '^(%d+);([01]);(%d+):(.*)$')
  length = tonumber(length)
  putting = { ttl = tonumber(ttl), batch = length > 0 and sub(names, 1, length) or nil, after = #names > length and sub(names, length + 1) or nil, after_all = tonumber(all),
    is_sealed = B.is_sealed, join = B.join, hold = B.hold }
  return putting
end

function B.is_sealed()
  local b = putting.batch and record_of(putting.batch)
  return b and b.sealed
end

function B.join(key)
  if putting.batch then
    local b = make(putting.batch, putting.ttl)
    count(b, 'pending')
    add_members(b, key, 1)
    changed(b)
  end
  if putting.after then
    local b, is_new = make(putting.after, putting.batch and 0 or putting.ttl)
    if is_new or b.verdict ~= OPEN or b.sealed and b.pending == 0 or b.gone > 0 then due_now(b) end
  end
end

function B.hold(j, f)
  j.state = 'delayed'
  call('ZADD', PREFIX .. 'delayed:' .. j.tube, HELD_SCORE, j.key)
  sum.delayed = sum.delayed + 1
  if j.group then OPS.groups().entered(j, j.group) end
  add_after(f or putting, j.key, j.state)
end

-- put_each puts jobs into a tube one by one. i is the index of the first record, after its priority if step
-- is 2; else pri is that of all. It returns the keys of those that the quotas have admitted.
local function put_each(tube, i, n, step, pri, limits)
  local keys = {}
  for k = 0, n - 1 do
    local record, score = ARGV[i + step * k], step == 2 and ARGV[i + step * k - 1] or pri
    if not limits or OPS.admit_record(tube, limits, record, true) then
      local key = new_job(record)
      keys[#keys + 1] = key
      call('ZADD', READY .. tube, score, key)
      if limits and tonumber(score) < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
    end
  end
  return keys
end

-- put_range puts n jobs into a tube as a range, and returns the key of the first one.
local function put_range(tube, i, n, pri, terms)
  local first = new_job(ARGV[i])
  for k = i + 1, i + n - 1 do new_job(ARGV[k]) end
  call('ZADD', READY .. tube, pri, range_of(first, n, terms))
  add_joined(tube, pri, n - 1)
  return first
end

-- drop_all drops the records of n puts.
local function drop_all(i, n, step)
  for k = 0, n - 1 do OPS.drop_put(ARGV[i + step * k]) end
end

-- job-batches put: adds members of a batch, without other tags, to a tube, without a delay
--
-- ARGV    'job-batches', 'put', tube, known, n, urgent, size, pri, terms, name, ttl, records…
--           known … terms  as put; if pri is '' each record is preceded by its priority
--           name, ttl      of the batch, in ms; 0 if not said
-- Keys    writes the records, ready:TUBE, tube:TUBE, counts, job-batches, members:BATCH, job-batch-names and -dues; reads
--         quotas, prefix-limits
-- Answer  0 if the batch is sealed, and nothing was put; else 1: the numbers of the jobs follow from the first one,
--         which each reply has
function COMMANDS.put(i)
  local tube, n, pri, name = ARGV[i], tonumber(ARGV[i + 2]), ARGV[i + 5], ARGV[i + 7]
  local step = pri == '' and 2 or 1
  local first, last, b, limits = i + 8 + step, i + 8 + step * n, record_of(name), OPS.limits_of(tube)
  answer(b and b.sealed and 0 or 1)
  if b and b.sealed then
    drop_all(first, n, step)
    return last + 1
  end
  if limited then OPS.groups().plain_ready(tube) end
  local keys = { '' }
  if step == 1 and not limits then
    add_members(make(name, tonumber(ARGV[i + 8])), put_range(tube, first, n, pri, ARGV[i + 6]), n)
  else
    keys = put_each(tube, first, n, step, pri, limits)
    for _, key in ipairs(keys) do add_members(make(name, tonumber(ARGV[i + 8])), key, 1) end
    n = #keys
  end
  if n == 0 then return last + 1 end
  b = record_of(name)
  b.pending, b.stamp, sum.changed = b.pending + n, b.stamp + n, true
  wakeups[tube] = (wakeups[tube] or 0) + n
  if limits then
    OPS.expire_put(keys, limits, 0)
  else
    totals[tube], bytes[tube], sum.urgent = (totals[tube] or 0) + n, (bytes[tube] or 0) + ARGV[i + 4], sum.urgent + ARGV[i + 3]
  end
  if ARGV[i + 1] ~= '1' then OPS.put_in(tube) end
  return last + 1
end
