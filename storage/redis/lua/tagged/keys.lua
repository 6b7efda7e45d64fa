-- Job keys (deduplication ids). keys:TUBE has the ids of the jobs that have one. key:TUBE KEY
-- is a tombstone: it exists while a key stays taken although its job is gone, 'ID UNTIL'. A
-- tick deletes it when its time is over, or a little later: what counts is UNTIL.

-- key_of_number returns the key in Redis of a job by its id.
local function key_of_number(number) return PREFIX .. format(ID_FORMAT, number) end

-- by_key returns the key in Redis of the job of a tube that has a job key; nil if there is
-- none.
local function by_key(tube, key)
  local number = key ~= '' and call('HGET', PREFIX .. 'keys:' .. tube, key)
  return number and key_of_number(tonumber(number)) or nil
end

-- tombstone_of returns the id of the deleted job for which a job key stays taken; nil if it
-- does not.
local function tombstone_of(tube, key)
  local tombstone = key ~= '' and call('GET', PREFIX .. 'key:' .. tube .. ' ' .. key)
  local number, till = string.match(tombstone or '', '^(%d+) (%d+)$')
  return number and tonumber(till) > NOW and tonumber(number) or nil
end

-- Redis itself deletes a tombstone if no tick has done so UNTICKED ms after its end. That is
-- only a fallback: Redis deletes a million expired keys for up to 25 ms at a time, and serves
-- nobody meanwhile. Tombstones that end within SHORT_TOGETHER ms are deleted together; those
-- that last longer than LONG, within LONG_TOGETHER, which is less than UNTICKED.
local UNTICKED, SHORT_TOGETHER, LONG_TOGETHER, LONG = 180000, 1000, 60000, 600000

-- leave_tombstone keeps a job key of a tube taken for a job that is gone.
local function leave_tombstone(tube, key, number, ttl)
  local name, till = tube .. ' ' .. key, NOW_UP + ttl
  call('SET', PREFIX .. 'key:' .. name, format('%.0f %.0f', number, till), 'PX', format('%.0f', ttl + UNTICKED))
  local together = ttl > LONG and LONG_TOGETHER or SHORT_TOGETHER
  local over = format('%.0f', math.ceil(till / together) * together)
  if call('RPUSH', PREFIX .. 'tombstones:' .. over, name) == 1 then call('ZADD', PREFIX .. 'tombstones', over, over) end
  sum['held-keys'] = sum['held-keys'] + 1
end

-- forget_metadata is called for a job that is about to be deleted. Its key stays taken for as
-- long as the rules say, unless its put is withdrawn.
function SLOW.forget_metadata(j)
  local f = metadata_of(j)
  SLOW.drop_expiry(j)
  if not f or f.key == '' then return end
  call('HDEL', PREFIX .. 'keys:' .. j.tube, f.key)
  local ttl = j.ends ~= 'withdrawn' and rules_of(j).key_ttl or 0
  if ttl > 0 then leave_tombstone(j.tube, f.key, tonumber(sub(j.key, #PREFIX + 1)), ttl) end
end

-- give_key gives a job a job key, which is free.
local function give_key(tube, key, job)
  call('DEL', PREFIX .. 'key:' .. tube .. ' ' .. key)
  call('HSET', PREFIX .. 'keys:' .. tube, key, format('%.0f', tonumber(sub(job, #PREFIX + 1))))
end

SLOW.by_key, SLOW.give_key = by_key, give_key

-- take_from_holder removes a reserved job from its holder.
local function take_from_holder(j)
  if j.leased then
    call('ZREM', LEASES, j.key)
    return
  end
  if unreserve(INSTANCE, j.key) then return end
  for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
    if unreserve(inst, j.key) then return end
  end
end

-- remove deletes a job in any state and of any holder; batch is that of the job which replaces it, nil if
-- there is none. It returns whether it was reserved.
local function remove(j, batch)
  locate(j, false)
  local reserved = j.state == 'reserved'
  if reserved then
    left(j)
    take_from_holder(j)
  elseif j.state == 'pending' then
    SLOW.clear_pending(j)
  else
    leave_place(j)
  end
  sum.changed = true
  local f = batch and metadata_of(j)
  if f and f.batch == batch then j.ends = 'replaced' end
  delete(j)
  return reserved
end

-- peek-key: returns the job of a tube that has a job key
--
-- ARGV    'peek-key', tube, key
-- Keys    reads keys:TUBE and the record
-- Answer  as peek
OPERATIONS['peek-key'] = function(i)
  answer_peek(by_key(ARGV[i], ARGV[i + 1]))
  return i + 2
end

-- delete-key: deletes the job of a tube that has a job key, whoever holds it
--
-- ARGV    'delete-key', tube, key
-- Keys    deletes the record; removes the job from its place, as move; writes keys:TUBE, key:TUBE
--         KEY, tube:TUBE, counts; reads policies
-- Answer  1, and its id if it was reserved, else 0; only 0 if there is no such job
OPERATIONS['delete-key'] = function(i)
  local key = by_key(ARGV[i], ARGV[i + 1])
  local j = key and load(key)
  answer(j and 1 or 0)
  if j then answer(remove(j) and sub(key, #PREFIX + 1) or 0) end
  return i + 2
end

-- find-key: returns the jobs of some tubes that have a job key. The list of tubes is read as by
-- tubes
--
-- ARGV    'find-key', from, limit, key
--           from   -1 for the first part, else the answer of the part before
--           limit  how many tubes at most
-- Keys    reads tubes, keys:TUBE, and as job-stats
-- Answer  where the next part begins, 0 if this was the last; how many jobs, and for each the id
--         and the answer of job-stats
OPERATIONS['find-key'] = function(i)
  local from, limit, key, found = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], {}
  if from < 0 then from = call('ZCARD', PREFIX .. 'tubes') end
  local low = math.max(from - limit, 0)
  local names = from > 0 and call('ZRANGE', PREFIX .. 'tubes', format('%d', low), format('%d', from - 1)) or {}
  for _, name in ipairs(names) do
    local job = by_key(name, key)
    local j = job and load(job)
    if j then found[#found + 1] = j end
  end
  answer(low)
  answer(#found)
  for _, j in ipairs(found) do
    answer(sub(j.key, #PREFIX + 1))
    answer_stats(j)
  end
  return i + 3
end

-- answer_metadata answers the part of job-stats about a job with metadata: its block, '' if it
-- is broken; the texts of the policies of its tube, a line each; 1 if it is leased; the tube for which it
-- is pending, or ''; its progress, or ''; and the size of its checkpoint, 0 if there is none.
function SLOW.answer_metadata(j)
  local f, size = metadata_of(j), length_of(j.key)
  answer_text(not f and '' or call('GETRANGE', j.key, format('%d', size - f.length - 2), format('%d', size - 3)))
  answer_text(SLOW.tube_policies(j.tube))
  answer(j.leased and 1 or 0)
  local pending = j.state == 'pending' and call('HGET', PREFIX .. 'pending', sub(j.key, #PREFIX + 1))
  answer_text(pending and string.match(pending, '^%S+') or '')
  local reports = has_reports(j)
  answer_text(reports and SLOW.progress_of(j) or '')
  answer(reports and SLOW.checkpoint_size(j) or 0)
end
