-- What is done when it is due.

-- give_back_first moves the first of the members of an instance's reserved jobs along an arrow,
-- up to about limit jobs, and returns their keys. step is 2 if members contains scores: then
-- the jobs move in this order, else in that of their ids. A lease set moves as a whole, because
-- the instance assumes that it either exists or is split.
local function give_back_first(inst, members, step, limit, arrow)
  local keys = {}
  for k = 1, #members, step do
    local member = members[k]
    for _, key in ipairs(#member > KEY_LENGTH and split(inst, member) or { member }) do keys[#keys + 1] = key end
    if #keys >= limit then break end
  end
  if step == 1 then table.sort(keys) end
  follow_all(PREFIX .. 'reserved:' .. inst, 'reserved', keys, arrow)
  return keys
end

-- overdue returns the first members of a sorted set of reserved jobs whose deadline is at most
-- upto, alternately with their deadlines.
local function overdue(set, upto, limit)
  return call('ZRANGEBYSCORE', set, '-inf', format('%.0f', upto), 'WITHSCORES', 'LIMIT', '0', format('%d', limit))
end

-- expire makes jobs ready that connections of this instance hold, whose deadline is at most
-- upto. It adds the keys to expired, and returns how many jobs these are.
local function expire(upto, limit, expired)
  local keys = give_back_first(INSTANCE, overdue(RESERVED, upto, limit), 2, limit, 'expire reserved')
  for _, key in ipairs(keys) do expired[#expired + 1] = key end
  return #keys
end

-- expire_leases makes leased jobs ready whose deadline is at most upto, and returns how many.
local function expire_leases(upto, limit)
  local over, keys = overdue(LEASES, upto, limit), {}
  for k = 1, #over, 2 do keys[#keys + 1] = over[k] end
  follow_all(LEASES, 'reserved', keys, 'expire reserved')
  return #keys
end

-- first_deadline returns the deadline of the first job in a set of reserved jobs.
local function first_deadline(set)
  return tonumber(call('ZRANGE', set, '0', '0', 'WITHSCORES')[2] or math.huge)
end

-- expire_all makes about limit jobs ready whose TTR is over, leased ones and others, and ends the
-- time of those that expire, in the order of all that. It returns the keys of the others, by how many ms the first job
-- is late, and how many have expired.
local function expire_all(limit)
  local expired, late, lapsed = {}, 0, 0
  while limit > 0 do
    local own, leased, lapses = first_deadline(RESERVED), first_deadline(LEASES), first_deadline(PREFIX .. 'expiring')
    local first = math.min(own, leased, lapses)
    if first > NOW then break end
    late = math.max(late, NOW - first)
    local n
    if lapses == first and lapses < math.min(own, leased) then
      n = SLOW.expire_due(math.min(own - 1, leased - 1, NOW), limit)
      lapsed = lapsed + n
    else
      if own <= leased then
        n = expire(math.min(leased, lapses, NOW), limit, expired)
      else
        n = expire_leases(math.min(own, lapses, NOW), limit)
      end
      sum.timeouts = sum.timeouts + n
    end
    limit = limit - math.max(n, 1) -- a set whose jobs are all deleted counts too
  end
  return expired, late, lapsed
end

-- mature makes up to limit delayed jobs of a tube ready that are due, sets the timer of the
-- tube, and returns how many they are.
local function mature(tube, limit)
  local queue = PREFIX .. 'delayed:' .. tube
  local keys = call('ZRANGEBYSCORE', queue, '-inf', format('%.0f', NOW), 'LIMIT', '0', format('%d', limit))
  follow_all(queue, 'delayed', keys, 'mature delayed')
  local head = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
  if head[1] and head[2] ~= HELD_SCORE then
    call('ZADD', PREFIX .. 'timers', head[2], 'd:' .. tube)
  else
    call('ZREM', PREFIX .. 'timers', 'd:' .. tube)
  end
  return #keys
end

-- fire_timers does up to about limit things whose timers are due. It returns how many more can
-- be done, and by how many ms the latest of them is late.
local function fire_timers(limit)
  local left, late = limit, 0
  while left > 0 do
    local first = call('ZRANGEBYSCORE', PREFIX .. 'timers', '-inf', format('%.0f', NOW), 'WITHSCORES', 'LIMIT', '0', '1')
    local timer = first[1]
    if not timer then break end
    left, late = left - 1, math.max(late, NOW - first[2])
    local kind, tube = sub(timer, 1, 2), sub(timer, 3)
    if kind == 'p:' then
      resume(tube)
    elseif kind == 'g:' then
      left = left - SLOW.groups().fire(tube, left + 1)
    else
      left = left - mature(tube, left + 1)
    end
  end
  return left, late
end

-- overdue_elsewhere returns whether a reservation of another instance has ended in the last
-- RECENT ms, which that instance has yet to process.
local RECENT = 500
local function overdue_elsewhere()
  for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
    if inst ~= INSTANCE then
      local due = call('ZRANGE', PREFIX .. 'reserved:' .. inst, '0', '0', 'WITHSCORES')[2]
      if due and tonumber(due) <= NOW and tonumber(due) > NOW - RECENT then return true end
    end
  end
  return false
end

-- drop_keys deletes the tombstones with these names, 'TUBE KEY' each, whose time is over. A key
-- can have been given to another job since, and have a newer tombstone.
local function drop_keys(names)
  local over = {}
  for k, name in ipairs(names) do names[k] = PREFIX .. 'key:' .. name end
  for k, tombstone in ipairs(call('MGET', unpack(names))) do
    local till = tombstone and string.match(tombstone, ' (%d+)$')
    if till and tonumber(till) <= NOW then over[#over + 1] = names[k] end
  end
  if over[1] then call('DEL', unpack(over)) end
end

-- drop_tombstones deletes up to limit tombstones whose time is over. It returns when the next
-- ones are due; nil if there are none.
local function drop_tombstones(limit)
  local queue = PREFIX .. 'tombstones'
  while true do
    local first = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    if limit <= 0 or not first[1] or tonumber(first[2]) > NOW then return tonumber(first[2]) end
    local names = {}
    while #names < limit do
      local name = call('LPOP', PREFIX .. 'tombstones:' .. first[1])
      if not name then break end
      names[#names + 1] = name
    end
    sum['held-keys'] = sum['held-keys'] - #names
    if #names < limit then call('ZREM', queue, first[1]) end
    if names[1] then drop_keys(names) end
    limit = limit - math.max(#names, 1)
  end
end

-- count_held_keys sets the counter of tombstones to what is there. It is called when the counter was 0 before: so that of a partition
-- from before version 0.3.0, which has none, is right from its first change on. Else there is little to count then. LLEN would be
-- faster, and users of version 0.2.0 need not have allowed it.
function SLOW.count_held_keys()
  local n = 0
  for _, over in ipairs(call('ZRANGE', PREFIX .. 'tombstones', '0', '-1')) do
    local from = 0
    repeat
      local part = #call('LRANGE', PREFIX .. 'tombstones:' .. over, format('%d', from), format('%d', from + 999))
      n, from = n + part, from + part
    until part < 1000
  end
  call('HSET', COUNTS, 'held-keys', format('%d', n))
end

-- MIN_TOMBSTONES is how many tombstones a tick deletes at least, whatever else it does.
local MIN_TOMBSTONES = 8

-- tell_flushed answers with up to limit of the reservations of this instance that were flushed.
local function tell_flushed(limit)
  local names, queue = {}, PREFIX .. 'flushed:' .. INSTANCE
  for _ = 1, limit do
    local name = call('LPOP', queue)
    if not name then break end
    names[#names + 1], sum.changed = name, true
  end
  if #names == limit then note_due(NOW) end
  SLOW.answer_names(names)
end

-- tick_ended drops up to about limit records of ended jobs, if there are any: those whose time is over, and what is beyond bounds.
local function tick_ended(limit)
  if sum.any_ended then sum.ended().write() end
  if first_deadline(PREFIX .. 'ended-until') == math.huge then return end
  local due = sum.ended().tick(limit)
  if due then note_due(due) end
end

-- tick: does up to about limit things that are due
--
-- ARGV    'tick', limit
-- Keys    moves ids from delayed:TUBE, reserved:INST and leases to ready:TUBE; reads and writes the
--         records; splits lease sets in groups:INST; writes timers, paused, counts; reads
--         instances and their reserved:INST; takes from expiring, tombstones and tombstones:TIME; deletes
--         key:TUBE KEY; reads schedule-dues, schedule-claims, job-batch-dues, job-batch-claims; takes from the keys of ended
--         jobs
-- Answer  by how many ms the latest thing was late; 1 if another instance has something due, else
--         0; for how many jobs the TTR has ended, and their keys; how many dead letters are
--         pending; for each kind in NAMED 1 if a record is due, else 0; how many reservations of this instance were
--         flushed, jobs and lease sets, and their names
OPERATIONS['tick'] = function(i)
  local limit, expired, late, held, lapsed = tonumber(ARGV[i]), {}, 0, 0, 0
  limit, late = fire_timers(limit)
  if limit > 0 then expired, held, lapsed = expire_all(limit) end
  local next_tombstone = drop_tombstones(math.max(limit - #expired - lapsed, MIN_TOMBSTONES))
  local timer = call('ZRANGE', PREFIX .. 'timers', '0', '0', 'WITHSCORES')[2]
  local reserved = call('ZRANGE', RESERVED, '0', '0', 'WITHSCORES')[2]
  if timer then note_due(tonumber(timer)) end
  if reserved then note_due(tonumber(reserved)) end
  local leased = call('ZRANGE', LEASES, '0', '0', 'WITHSCORES')[2]
  if leased then note_due(tonumber(leased)) end
  local lapses = first_deadline(PREFIX .. 'expiring')
  if lapses < math.huge then note_due(lapses) end
  if next_tombstone then note_due(next_tombstone) end
  tick_ended(tonumber(ARGV[i]))
  answer(math.max(late, held))
  answer(overdue_elsewhere() and 1 or 0)
  answer(#expired)
  for _, key in ipairs(expired) do say(key) end
  answer(call('HLEN', PREFIX .. 'pending'))
  if sum.job_batches then sum.job_batches.write() end
  for _, kind in ipairs(NAMED) do answer(SLOW.note_dues(kind) and 1 or 0) end
  tell_flushed(tonumber(ARGV[i]))
  return i + 1
end
