-- The operations by which instances keep time, and an eye on each other.

-- rouse has the next instance told that waits for a job of a tube, if there is one.
function OPS.rouse(tube)
  if call('EXISTS', READY .. tube) == 1 then roused[tube] = (roused[tube] or 0) + 1 end
end

-- give_back_first gives back those of the members of an instance's reserved
-- jobs that come first, up to about limit jobs, and returns their ids. A group goes
-- as a whole, so that nobody who believes in it is mistaken about its rest.
local function give_back_first(inst, members, step, limit, arrow)
  local ids = {}
  for k = 1, #members, step do
    local member = members[k]
    for _, id in ipairs(#member > LENGTH and split(inst, member) or { member }) do ids[#ids + 1] = id end
    if #ids >= limit then break end
  end
  follow_all(PREFIX .. 'reserved:' .. inst, 'V', ids, arrow)
  return ids
end

-- expire gives back what connections of this instance have held for too long,
-- and returns the ids, and for how long at most.
local function expire(limit)
  local over = call('ZRANGEBYSCORE', RESERVED, '-inf', format('%.0f', NOW), 'WITHSCORES', 'LIMIT', '0', format('%d', limit))
  local ids = give_back_first(ME, over, 2, limit, ARROWS['expireV'])
  sum.timeouts = sum.timeouts + #ids
  return ids, over[2] and NOW - over[2] or 0
end

local function mature(tube, limit)
  local queue = PREFIX .. 'delayed:' .. tube
  local members = call('ZRANGEBYSCORE', queue, '-inf', format('%.0f', NOW), 'LIMIT', '0', format('%d', limit))
  follow_all(queue, 'D', members, ARROWS['matureD'])
  local head = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
  if head[1] then
    call('ZADD', PREFIX .. 'timers', head[2], 'd:' .. tube)
  else
    call('ZREM', PREFIX .. 'timers', 'd:' .. tube)
  end
  return #members
end

-- overdue_elsewhere returns whether a reservation of another instance has just run
-- out, and that instance has still to see to it.
local RECENT = 500
local function overdue_elsewhere()
  for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
    if inst ~= ME then
      local due = call('ZRANGE', PREFIX .. 'reserved:' .. inst, '0', '0', 'WITHSCORES')[2]
      if due and tonumber(due) <= NOW and tonumber(due) > NOW - RECENT then return true end
    end
  end
  return false
end

-- tick limit → late, elsewhere, n, ids…: does up to about limit things that are due.
-- late is by how many ms the latest of them is late. elsewhere is 1 if something that
-- is due is another instance's to do. The ids are of jobs that connections of this
-- instance hold no longer.
OPS['tick'] = function(i)
  local left, expired, late, held = tonumber(ARGV[i]), {}, 0, 0
  while left > 0 do
    local first = call('ZRANGEBYSCORE', PREFIX .. 'timers', '-inf', format('%.0f', NOW), 'WITHSCORES', 'LIMIT', '0', '1')
    local timer = first[1]
    if not timer then break end
    left, late = left - 1, math.max(late, NOW - first[2])
    local tube = sub(timer, 3)
    if sub(timer, 1, 1) == 'p' then
      resume(tube)
    else
      left = left - mature(tube, left + 1)
    end
  end
  if left > 0 then expired, held = expire(left) end
  local timer = call('ZRANGE', PREFIX .. 'timers', '0', '0', 'WITHSCORES')[2]
  local reserved = call('ZRANGE', RESERVED, '0', '0', 'WITHSCORES')[2]
  if timer then due_at(tonumber(timer)) end
  if reserved then due_at(tonumber(reserved)) end
  answer(math.max(late, held))
  answer(overdue_elsewhere() and 1 or 0)
  answer(#expired)
  for _, member in ipairs(expired) do say(member) end
  return i + 1
end

-- reclaim gives back what an instance has reserved, and then forgets the instance:
-- a part of that, about limit jobs or tubes. It returns where the next part goes on,
-- nil if there is none. from is what the part before has returned, -1 for the first.
-- Tubes are gone through from the last to the first: when one is dropped the last
-- takes its place, which is done already.
local function reclaim(inst, limit, from)
  local queue = PREFIX .. 'reserved:' .. inst
  sum.changed = true
  give_back_first(inst, call('ZRANGE', queue, '0', format('%d', limit - 1)), 1, limit, ARROWS['give-backV'])
  if call('EXISTS', queue) == 1 then return from end
  flush()
  if from < 0 then from = call('ZCARD', PREFIX .. 'tubes') end
  local low = math.max(from - limit, 0)
  local names = from > 0 and call('ZRANGE', PREFIX .. 'tubes', format('%d', low), format('%d', from - 1)) or {}
  for k = #names, 1, -1 do
    call('ZREM', PREFIX .. 'waiting:' .. names[k], inst)
    if call('HDEL', PREFIX .. 'attending:' .. names[k], inst) == 1 then
      attended[names[k]] = nil
      drop_unused(names[k])
    end
  end
  if low > 0 then return low end
  -- What the instance was told and did not read is told to the next one.
  for _ = 1, limit do
    local letter = call('LPOP', PREFIX .. 'mail:' .. inst)
    if not letter then
      call('ZREM', PREFIX .. 'instances', inst)
      return nil
    end
    OPS.rouse(letter)
  end
  return 0
end

-- reclaim inst limit from → where the next part goes on, -2 if there is none: the
-- instance was declared dead, and a part of what is to be done about it is done.
OPS['reclaim'] = function(i)
  local inst, left = ARGV[i], nil
  local last = call('GETRANGE', PREFIX .. 'batch:' .. inst, '0', '3')
  if last == '' or last == 'dead' then -- else it is alive
    left = reclaim(inst, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
  end
  answer(left or -2)
  return i + 3
end

-- ids least → n: the number of the last job put, which is made this one at least
OPS['ids'] = function(i)
  local least, last = tonumber(ARGV[i]), tonumber(call('HGET', COUNTS, 'ids') or 0)
  if last < least then
    count_up(COUNTS, 'skipped', least - last)
    last = count_up(COUNTS, 'ids', least - last)
  end
  answer(last)
  return i + 1
end

-- bury_silent declares those instances dead that gave no heartbeat for silence ms:
-- they have no batch to go on from. Whoever does that gives back what they have
-- reserved, and if they are still there after a long time, anybody. It returns, for
-- those of which about limit jobs and tubes were not all, the names and where to go
-- on.
local function bury_silent(silence, limit)
  local silent = call('ZRANGEBYSCORE', PREFIX .. 'instances', '-inf', format('%.0f', NOW - silence), 'WITHSCORES')
  local names, rests = {}, {}
  for k = 1, #silent, 2 do
    local inst = silent[k]
    if inst ~= ME then
      local last = call('GETRANGE', PREFIX .. 'batch:' .. inst, '0', '3')
      local first = last ~= '' and last ~= 'dead'
      if first then
        call('SET', PREFIX .. 'batch:' .. inst, 'dead', 'EX', '86400')
        sum.changed = true
      end
      if first or NOW - silent[k + 1] >= 3 * silence then
        local rest = -1
        if limit > 0 then rest = reclaim(inst, limit, -1) end
        limit = 0
        if rest then names[#names + 1], rests[#rests + 1] = inst, rest end
      end
    end
  end
  return names, rests
end

-- beat silence limit home sent → n, and n times a name and where to go on: a
-- heartbeat; and instances that gave none for silence ms are declared dead. home is 1
-- if the tube 'default', which is always there, belongs to this partition. sent is
-- when it was first sent: one that was held up for a second declares nobody dead,
-- since the others' were held up as well, and may be right behind it.
OPS['beat'] = function(i)
  if ARGV[i + 2] == '1' then open_tube('default') end
  if registering then
    sum.changed = true -- it has to be recorded
    -- Of records that were put before anybody noted their sizes, nothing is known.
    local have = call('HMGET', COUNTS, 'ids', 'skipped', 'deleted')
    if not have[1] or call('EXISTS', PREFIX .. 'instances') == 0 and have[1] - (have[2] or 0) == tonumber(have[3] or 0) then
      call('HSET', COUNTS, 'largest', '0')
    end
  end
  call('ZADD', PREFIX .. 'instances', format('%.0f', NOW), ME)
  local names, rests = {}, {}
  if NOW - ARGV[i + 3] < 1000 then names, rests = bury_silent(tonumber(ARGV[i]), tonumber(ARGV[i + 1])) end
  answer(#names)
  for k, inst in ipairs(names) do
    answer_text(inst)
    answer(rests[k])
  end
  return i + 4
end

-- resign limit from → where the next part goes on, -2 if that was the last: this
-- instance ends, and does about limit jobs or tubes of what that takes
OPS['resign'] = function(i)
  local rest = reclaim(ME, tonumber(ARGV[i]), tonumber(ARGV[i + 1]))
  if not rest then
    call('DEL', BATCH)
    sum.changed = false -- leave no record behind
  end
  answer(rest or -2)
  return i + 2
end

-- pass tube → 1: nobody here wants the job of which this instance was told
OPS['pass'] = function(i)
  OPS.rouse(ARGV[i])
  answer(1)
  return i + 1
end

return OPS
