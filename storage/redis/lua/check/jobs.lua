-- Which of these jobs are not where their records say, or in two places. It
-- changes nothing unless it is to repair: then it takes each of them out of all
-- places and puts it where its record says, a reserved one among the ready, a
-- delayed one that is nowhere as due.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much the call may do, see alone.lua
-- ARGV[4…] ids, whole keys
--
-- Reply: of how many of these jobs, from the first on, it has looked at, which is one
-- at least; and a text for each that is wrong

local PREFIX, STEP = KEYS[1], tonumber(ARGV[2])
local clock = redis.call('TIME')
local NOW = string.format('%.0f', clock[1] * 1000)

-- The instances that have reserved jobs; those that have groups are true.
local holders = {}
for _, inst in ipairs(redis.call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
  if redis.call('EXISTS', PREFIX .. 'reserved:' .. inst) == 1 then holders[inst] = false end
  if redis.call('EXISTS', PREFIX .. 'groups:' .. inst) == 1 then holders[inst] = true end
  work = work + 2
end

-- run_with finds the run of ready jobs in which a job is.
local function run_with(queue, id, pri)
  work = work + 1
  local run = run_by_bytes(queue, id, STEP)
  if run then return run end
  work = work + 20
  return run_by_priority(queue, id, pri, STEP)
end

-- places returns the keys in which a job is, the score by the last of them, the run
-- in which it is, and its group and whose that is.
local function places(id, tube, pri)
  local found, score = {}, nil
  local function look(key)
    local at = redis.call('ZSCORE', PREFIX .. key, id)
    work = work + 1
    if at then
      found[#found + 1] = key
      score = at
    end
    return at
  end
  -- A ready job that is in a run as well is found among the members of the queue.
  local single, run = look('ready:' .. tube), nil
  for _, queue in ipairs({ 'delayed:', 'buried:' }) do look(queue .. tube) end
  local group, whose
  for inst, has_groups in pairs(holders) do
    look('reserved:' .. inst)
    local its = has_groups and run_by_bytes(PREFIX .. 'groups:' .. inst, id, STEP)
    work = work + 1
    if its then
      found[#found + 1] = 'reserved:' .. inst
      group, whose = its, inst
    end
  end
  if not single then run = run_with(PREFIX .. 'ready:' .. tube, id, pri) end
  if run then found[#found + 1] = 'ready:' .. tube end
  return found, score, run, group, whose
end

local QUEUE = { R = 'ready:', D = 'delayed:', B = 'buried:' }

-- jobs_of returns how many jobs a run or a group has; 0 if there is none.
local function jobs_of(member)
  return member and tonumber(string.match(member, '^;(%d+)', LENGTH + 1)) or 0
end

local function fits(letter, tube, found)
  if #found ~= 1 then return false end
  if found[1] == QUEUE[letter] .. tube then return true end
  return letter == 'R' and string.sub(found[1], 1, 9) == 'reserved:'
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
    local due = #found == 1 and score or NOW
    redis.call('ZADD', queue, due, id)
    redis.call('ZADD', PREFIX .. 'timers', '0', 'd:' .. tube)
  end
  list(tube)
end

local looked = 0
for k = 4, #ARGV do
  if looked > 0 and work >= MOST then break end
  local id = ARGV[k]
  looked, work = looked + 1, work + 2
  local raw = redis.call('GETRANGE', id, '0', '241')
  if #raw > 41 then
    local letter, _, pri = struct.unpack('>c1I4I4', raw)
    local tube = string.sub(raw, 43, 42 + string.byte(raw, 42))
    local found, score, run, group, whose = places(id, tube, pri)
    if not QUEUE[letter] then
      wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': its record is broken'
    elseif not fits(letter, tube, found) then
      local where = #found > 0 and 'in ' .. table.concat(found, ', ') or 'nowhere'
      wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': by its record it should be in ' .. QUEUE[letter] .. tube .. ', and it is ' .. where
      if ARGV[1] == '1' then put_right(id, letter, tube, pri, found, score, run, group, whose) end
    elseif not redis.call('ZSCORE', PREFIX .. 'tubes', tube) then
      wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': its tube ' .. tube .. ' is not listed'
      if ARGV[1] == '1' then list(tube) end
    end
  elseif raw ~= '' then
    wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': its record is broken'
  end
end
return { looked, wrong }
