-- Iterates over queues with many jobs, in steps. A position in a queue is that of a job:
-- w.score and w.key, which are '' before the first one. So nothing is missed when jobs come and
-- go between two steps. Scores are the texts that Redis returns.

-- last_of returns the key of the last job of a member of a queue.
local function last_of(member)
  if #member == KEY_LENGTH then return member end
  return key_of(id_of(member) + (string.match(member, '^;(%d+)', KEY_LENGTH + 1) - 1) * partitions)
end

-- is_behind returns whether a job in a queue comes after a position.
local function is_behind(w, score, key)
  if w.key == '' then return true end
  local at, score_n = tonumber(w.score), tonumber(score)
  return score_n > at or score_n == at and key > w.key
end

-- members_behind returns the next members of a queue that have a job after a position,
-- alternately with their scores; at most limit members. Members with one score are in the order
-- of their jobs.
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

-- merge returns up to limit of the first members of two queues, alternately with their scores, and
-- whether these are all.
local function merge(a, b, limit)
  local x, y, both = 1, 1, {}
  while #both < 2 * limit and (a[x] or b[y]) do
    local p, q = tonumber(a[x + 1]), tonumber(b[y + 1])
    if not a[x] or b[y] and (q < p or q == p and b[y] < a[x]) then
      both[#both + 1], both[#both + 2], y = b[y], b[y + 1], y + 2
    else
      both[#both + 1], both[#both + 2], x = a[x], a[x + 1], x + 2
    end
  end
  return both, not a[x] and not b[y]
end

-- ready_behind is members_behind for all ready jobs of a tube, those with groups too. The second
-- result says whether there are no more.
local function ready_behind(tube, w, limit)
  local found, all = {}, true
  for _, queue in ipairs({ 'ready:', 'lane-ready:', 'lone-ready:' }) do
    local more, whole = members_behind(PREFIX .. queue .. tube, w, limit), nil
    if #more == 2 * limit then all = false end
    found, whole = merge(found, more, limit)
    all = all and whole
  end
  return found, all
end

-- queue_behind returns the next members of the queue of a state behind a position, as members_behind
-- does, and whether there are no more.
local function queue_behind(tube, state, w, limit)
  if state == 'ready' and limited then return ready_behind(tube, w, limit) end
  local members = members_behind(PREFIX .. state .. ':' .. tube, w, limit)
  return members, #members < 2 * limit
end

-- holder_queue returns the sorted set of what a holder has reserved: an instance, or '' for all
-- leases.
local function holder_queue(holder)
  return holder == '' and LEASES or PREFIX .. 'reserved:' .. holder
end

-- next_holder returns the instance that follows a holder, in the order of their names; nil if
-- there is none.
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

-- jobs_in returns the jobs of a member of reserved jobs that have a record, if they belong to a
-- tube, and how many it has examined. A lease set has jobs of one tube only.
local function jobs_in(member, tube)
  local keys, living = keys_of(member, partitions), {}
  for k, key in ipairs(keys) do
    local its_tube = tube_of(key)
    if its_tube and its_tube ~= tube then return living, k end
    if its_tube then living[#living + 1] = key end
  end
  return living, #keys
end

-- any_reserved returns whether any job of a tube is reserved, by its counters.
local function any_reserved(tube)
  flush()
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'joined', 'pending')
  local left = (have[1] or 0) - (have[2] or 0) - (have[3] or 0) - (have[4] or 0)
  for _, state in ipairs({ 'ready:', 'delayed:', 'buried:' }) do left = left - call('ZCARD', PREFIX .. state .. tube) end
  return left ~= ready_in_groups(tube)
end

-- next_reserved continues an iteration over everything that is reserved, and returns the next
-- jobs of a tube: for each { member, its score, holder, keys of its jobs }. w.holder is the
-- next holder, nil at the end; w.begin is the position at which the iteration over each holder
-- begins. It stops at about limit jobs, or after examining LOOKED, or where a holder has `most`
-- jobs, or if no job of the tube is reserved; w.had is how many were found of the present
-- holder.
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
