-- Runs and groups, for the script and for the checks. A member of ready:TUBE is
-- the key of a job or, if it is longer, a run: 'KEY;how many;priority;TTR;INST'; one
-- of reserved:INST a job or a group: 'KEY;how many;gDEADLINE'. Who has this in it has
-- said what LENGTH is, that of a key.

-- in_run returns how many jobs a run or group has, and how many of them come before a
-- job; nil if it is no run, or the job is not in it. step is by what the ids of
-- a run differ, the number of partitions.
local function in_run(member, key, step)
  local n = member and tonumber(string.match(member, '^;(%d+)', LENGTH + 1))
  if not n then return nil end
  local before = (tonumber(string.sub(key, -16)) - tonumber(string.sub(member, LENGTH - 15, LENGTH))) / step
  if before < 0 or before >= n then return nil end
  return n, before
end

-- The next two find the run in which a job is: its name, how many jobs it has,
-- and how many of them come before this one; nil if it is in none.

-- run_by_bytes relies on all jobs having one priority, as then members are in the
-- order of their bytes. Else it may find nothing. It is also for groups:INST.
local function run_by_bytes(queue, key, step)
  local member = redis.call('ZREVRANGEBYLEX', queue, '[' .. key .. '~', '-', 'LIMIT', '0', '1')[1]
  local n, before = in_run(member, key, step)
  if n then return member, n, before end
  return nil
end

-- run_by_priority looks among the members of the job's priority, which are in the
-- order of their first jobs.
local function run_by_priority(queue, key, pri, step)
  local upto, best = string.format('%.0f', pri), nil
  local low, high = redis.call('ZCOUNT', queue, '-inf', '(' .. upto), redis.call('ZCOUNT', queue, '-inf', upto)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at = string.format('%d', middle)
    local member = redis.call('ZRANGE', queue, at, at)[1]
    if string.sub(member, 1, LENGTH) <= key then
      low, best = middle + 1, member
    else
      high = middle
    end
  end
  local n, before = in_run(best, key, step)
  if n then return best, n, before end
  return nil
end

-- keys_of returns the keys of the jobs of a member, which may be a run or a group.
local function keys_of(member, step)
  local n = tonumber(string.match(member, '^;(%d+);%d+;%d+;%w*$', LENGTH + 1) or string.match(member, '^;(%d+);g%d+$', LENGTH + 1))
  if not n then return { member } end
  local keys, first = {}, tonumber(string.sub(member, LENGTH - 15, LENGTH))
  for k = 1, n do
    keys[k] = string.sub(member, 1, LENGTH - 16) .. string.format('%016.0f', first + (k - 1) * step)
  end
  return keys
end

-- take_apart makes a run members of its own, but for those jobs that are not to
-- be there. The counters of runs are not set right.
local function take_apart(queue, member, step, without)
  local score = redis.call('ZSCORE', queue, member)
  redis.call('ZREM', queue, member)
  for _, key in ipairs(keys_of(member, step)) do
    if not without[key] then redis.call('ZADD', queue, score, key) end
  end
end

-- split_group makes members of their own of those jobs of an instance's group that
-- are still there, and returns their keys. The counter of grouped jobs is not set
-- right.
local function split_group(prefix, inst, member, step)
  local reserved, left = prefix .. 'reserved:' .. inst, {}
  local due = string.match(member, 'g(%d+)$')
  redis.call('ZREM', reserved, member)
  redis.call('ZREM', prefix .. 'groups:' .. inst, member)
  for _, key in ipairs(due and keys_of(member, step) or {}) do
    if redis.call('EXISTS', key) == 1 then
      redis.call('ZADD', reserved, due, key)
      left[#left + 1] = key
    end
  end
  return left
end
