-- Where a job is, for the checks of jobs and of members, and how it is put right: it
-- is taken out of all places and put where its record says, a reserved one among the
-- ready, a delayed one that is nowhere as due.

local PREFIX, STEP = KEYS[1], tonumber(ARGV[2])
local QUEUE = { R = 'ready:', D = 'delayed:', B = 'buried:' }

-- in_queues returns the keys of those of its tube's queues of which a job is a member,
-- and the score in the last of them.
local function in_queues(id, tube)
  local found, score = {}, nil
  work = work + 3
  for _, queue in ipairs({ 'ready:', 'delayed:', 'buried:' }) do
    local at = redis.call('ZSCORE', PREFIX .. queue .. tube, id)
    if at then found[#found + 1], score = queue .. tube, at end
  end
  return found, score
end

-- is_settled returns whether a job is in one of these only, and in the right one. Then
-- nobody looks for it in runs and among reserved jobs, which is dear: whoever looks at
-- these comes upon it.
local function is_settled(letter, tube, found)
  return #found == 1 and QUEUE[letter] ~= nil and found[1] == QUEUE[letter] .. tube
end

-- The instances that have reserved jobs; those that have groups are true.
local holders
local function all_holders()
  if holders then return holders end
  holders = {}
  for _, inst in ipairs(redis.call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
    if redis.call('EXISTS', PREFIX .. 'reserved:' .. inst) == 1 then holders[inst] = false end
    if redis.call('EXISTS', PREFIX .. 'groups:' .. inst) == 1 then holders[inst] = true end
    work = work + 2
  end
  return holders
end

-- places returns the keys in which a job is, the score by the last of them, the run
-- in which it is, and its group and whose that is.
local function places(id, tube, pri)
  local found, score = in_queues(id, tube)
  local single, group, whose = found[1] == 'ready:' .. tube, nil, nil
  for inst, has_groups in pairs(all_holders()) do
    local at = redis.call('ZSCORE', PREFIX .. 'reserved:' .. inst, id)
    if at then found[#found + 1], score = 'reserved:' .. inst, at end
    local its = has_groups and run_by_bytes(PREFIX .. 'groups:' .. inst, id, STEP)
    if its then
      found[#found + 1] = 'reserved:' .. inst
      group, whose = its, inst
    end
    work = work + 2
  end
  local run = run_by_bytes(PREFIX .. 'ready:' .. tube, id, STEP)
  work = work + 1
  if not run and not single then
    run = run_by_priority(PREFIX .. 'ready:' .. tube, id, pri, STEP)
    work = work + 20
  end
  if run then found[#found + 1] = 'ready:' .. tube end
  return found, score, run, group, whose
end

-- parse returns what the first bytes of a record say: state, priority, tube.
local function parse(raw)
  local letter, _, pri = struct.unpack('>c1I4I4', raw)
  return letter, pri, string.sub(raw, 43, 42 + string.byte(raw, 42))
end

-- jobs_of returns how many jobs a run or a group has; 0 if there is none.
local function jobs_of(member)
  return member and tonumber(string.match(member, '^;(%d+)', LENGTH + 1)) or 0
end

local function fits(letter, tube, found)
  if is_settled(letter, tube, found) then return true end
  return #found == 1 and letter == 'R' and string.sub(found[1], 1, 9) == 'reserved:'
end

local function list(tube)
  if not redis.call('ZSCORE', PREFIX .. 'tubes', tube) then
    redis.call('ZADD', PREFIX .. 'tubes', redis.call('HINCRBY', PREFIX .. 'counts', 'opened', '1'), tube)
  end
end

local function put_right(id, letter, tube, pri, found, score, run, group, whose)
  work = work + 10 + 2 * jobs_of(group) + jobs_of(run)
  if group then split_group(PREFIX, whose, group, STEP) end
  if run then take_apart(PREFIX .. 'ready:' .. tube, run, STEP, { [id] = true }) end
  for _, key in ipairs(found) do redis.call('ZREM', PREFIX .. key, id) end
  local queue = PREFIX .. QUEUE[letter] .. tube
  if letter == 'R' then
    redis.call('ZADD', queue, string.format('%.0f', pri), id)
  elseif letter == 'B' then
    redis.call('ZADD', queue, redis.call('HINCRBY', PREFIX .. 'counts', 'burials', '1'), id)
  else
    local due = #found == 1 and score or string.format('%.0f', redis.call('TIME')[1] * 1000)
    redis.call('ZADD', queue, due, id)
    redis.call('ZADD', PREFIX .. 'timers', '0', 'd:' .. tube)
  end
  list(tube)
end

-- misplaced notes that a job is in other places than it should be.
local function misplaced(id, letter, tube, found)
  local where = #found > 0 and 'in ' .. table.concat(found, ', ') or 'nowhere'
  wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': by its record it should be in ' .. QUEUE[letter] .. tube .. ', and it is ' .. where
end

