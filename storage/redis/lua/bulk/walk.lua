-- Ways through queues with many jobs, in steps. A place in a queue is that of a job in it: w.score
-- and w.key, which are '' before the first one. So nothing that comes and goes between two
-- steps has others missed. Scores are the texts that Redis returns.

-- last_of returns the key of the last job of a member of a queue.
local function last_of(member)
  if #member == KEY_LENGTH then return member end
  return key_of(id_of(member) + (string.match(member, '^;(%d+)', KEY_LENGTH + 1) - 1) * partitions)
end

-- is_behind returns whether a job in a queue comes behind a place.
local function is_behind(w, score, key)
  if w.key == '' then return true end
  local at, its = tonumber(w.score), tonumber(score)
  return its > at or its == at and key > w.key
end

-- members_behind returns the next members of a queue that have a job behind a place, and their
-- scores, by turns; limit members at most. Members of one score are in the order of their jobs.
local function members_behind(queue, w, limit)
  local low, high = 0, 0
  if w.key ~= '' then
    low, high = call('ZCOUNT', queue, '-inf', '(' .. w.score), call('ZCOUNT', queue, '-inf', w.score)
  end
  while low < high do
    local middle = math.floor((low + high) / 2)
    local rank = format('%d', middle)
    if last_of(call('ZRANGE', queue, rank, rank)[1]) <= w.key then
      low = middle + 1
    else
      high = middle
    end
  end
  return call('ZRANGE', queue, format('%d', low), format('%d', low + limit - 1), 'WITHSCORES')
end

-- holder_queue returns what a holder has reserved: an instance, or '' for all leases.
local function holder_queue(holder)
  return holder == '' and LEASES or PREFIX .. 'reserved:' .. holder
end

-- next_holder returns the instance that comes behind a holder, in the order of their names;
-- nil if there is none.
local function next_holder(holder)
  local best = INSTANCE > holder and INSTANCE or nil
  for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
    if inst > holder and (not best or inst < best) then best = inst end
  end
  return best
end

-- tube_of returns the tube of a job, nil if it has no record.
local function tube_of(key)
  local raw = call('GETRANGE', key, format('%d', NAME_AT - 2), LONGEST_NAME)
  return raw ~= '' and sub(raw, 2, 1 + string.byte(raw, 1)) or nil
end

-- jobs_in returns those jobs of a member of reserved jobs that have a record, if they are of
-- a tube, and how many it has looked at. A lease set has jobs of one tube only.
local function jobs_in(member, tube)
  local keys, living = keys_of(member, partitions), {}
  for k, key in ipairs(keys) do
    local its = tube_of(key)
    if its and its ~= tube then return living, k end
    if its then living[#living + 1] = key end
  end
  return living, #keys
end

-- any_reserved returns whether any job of a tube is reserved, by its counters.
local function any_reserved(tube)
  flush()
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'joined', 'pending')
  local left = (have[1] or 0) - (have[2] or 0) - (have[3] or 0) - (have[4] or 0)
  for _, state in ipairs({ 'ready:', 'delayed:', 'buried:' }) do left = left - call('ZCARD', PREFIX .. state .. tube) end
  return left ~= 0
end

-- next_reserved goes on along a way through all that is reserved, and returns the next jobs of
-- a tube: of each { member, its score, holder, keys of its jobs }. w.holder is whose jobs
-- come next, nil at the end; w.begin is the place from which it looks at those of the next
-- holder. It stops at about limit jobs, or when it has looked at LOOKED, or where a holder has
-- most jobs, or if none of the tube is left; w.had is how many were found of the present one.
local LOOKED = 500
local function next_reserved(tube, w, limit, most)
  local found, jobs, looked = {}, 0, 0
  if not any_reserved(tube) then w.holder = nil end
  while w.holder and jobs < limit and looked < LOOKED do
    local members, k = members_behind(holder_queue(w.holder), w, limit), 1
    while members[k] and jobs < limit and looked < LOOKED and w.had < most do
      local keys, n = jobs_in(members[k], tube)
      if keys[1] then found[#found + 1] = { members[k], members[k + 1], w.holder, keys } end
      jobs, looked, w.had = jobs + #keys, looked + n, w.had + #keys
      w.score, w.key, k = members[k + 1], last_of(members[k]), k + 2
    end
    if not members[k] and #members < 2 * limit or w.had >= most then
      w.holder, w.score, w.key, w.had = next_holder(w.holder), w.begin.score, w.begin.key, 0
      looked = looked + 1
    end
  end
  return found
end
