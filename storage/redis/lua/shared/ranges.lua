-- Ranges and lease sets, see keys.md, for calls and for checks. The including script defines
-- call, KEY_LENGTH, ID_LENGTH and ID_FORMAT.
--
-- member, below, is a member of ready:TUBE or of reserved:INST: the key of a job, or a longer
-- name, of a range or a lease set. step is the difference between ids of a range: the number of
-- partitions.

-- id_of returns the id of a job by its key; for a range or a lease set that of the first job.
local function id_of(member)
  return tonumber(string.sub(member, KEY_LENGTH - ID_LENGTH + 1, KEY_LENGTH))
end

-- place_in returns how many jobs a range or lease set has, and how many of them precede a job.
-- It returns nil if member is neither, or does not have the job.
local function place_in(member, key, step)
  local n = member and tonumber(string.match(member, '^;(%d+)', KEY_LENGTH + 1))
  if not n then return nil end
  local before = (id_of(key) - id_of(member)) / step
  if before < 0 or before >= n then return nil end
  return n, before
end

-- The next two find the range of a job. They return its name, how many jobs it has, and how
-- many of these precede the job; nil if the job is in none.

-- range_by_bytes is for sorted sets in which all members have one score, and are therefore in
-- the order of their bytes: groups:INST, and ready:TUBE if all jobs have the same priority. In
-- others it can miss the range.
local function range_by_bytes(queue, key, step)
  local member = call('ZREVRANGEBYLEX', queue, '[' .. key .. '~', '-', 'LIMIT', '0', '1')[1]
  local n, before = place_in(member, key, step)
  if n then return member, n, before end
  return nil
end

-- range_by_priority searches among the members with the job's priority, which are in the order
-- of their first jobs.
local function range_by_priority(queue, key, pri, step)
  local upto, best = string.format('%.0f', pri), nil
  local low, high = call('ZCOUNT', queue, '-inf', '(' .. upto), call('ZCOUNT', queue, '-inf', upto)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = string.format('%d', middle)
    local member = call('ZRANGE', queue, rank, rank)[1]
    if string.sub(member, 1, KEY_LENGTH) <= key then
      low, best = middle + 1, member
    else
      high = middle
    end
  end
  local n, before = place_in(best, key, step)
  if n then return best, n, before end
  return nil
end

-- keys_of returns the keys of the jobs of a member.
local function keys_of(member, step)
  local n = tonumber(string.match(member, '^;(%d+);%d+;%d+;%w*$', KEY_LENGTH + 1)
    or string.match(member, '^;(%d+);g%d+$', KEY_LENGTH + 1))
  if not n then return { member } end
  local prefix, first, keys = string.sub(member, 1, KEY_LENGTH - ID_LENGTH), id_of(member), {}
  for k = 1, n do keys[k] = prefix .. string.format(ID_FORMAT, first + (k - 1) * step) end
  return keys
end

-- dissolve_range makes the jobs of a range single members, except for those whose keys are in
-- without. It does not change joined and joined-urgent.
local function dissolve_range(queue, member, step, without)
  local score = call('ZSCORE', queue, member)
  call('ZREM', queue, member)
  for _, key in ipairs(keys_of(member, step)) do
    if not without[key] then call('ZADD', queue, score, key) end
  end
end

-- split_lease_set makes the jobs of an instance's lease set that have a record single members,
-- and returns their keys. It does not change the counter grouped.
local function split_lease_set(prefix, inst, member, step)
  local reserved, left = prefix .. 'reserved:' .. inst, {}
  local due = string.match(member, 'g(%d+)$')
  call('ZREM', reserved, member)
  call('ZREM', prefix .. 'groups:' .. inst, member)
  for _, key in ipairs(due and keys_of(member, step) or {}) do
    if call('EXISTS', key) == 1 then
      call('ZADD', reserved, due, key)
      left[#left + 1] = key
    end
  end
  return left
end
