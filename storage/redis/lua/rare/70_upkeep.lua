-- The operations by which instances keep time, and an eye on each other.

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

-- tick limit → late, n, ids…: does up to about limit things that are due. late
-- is by how many ms the latest of them is late. The ids are of jobs that
-- connections of this instance hold no longer.
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
  answer(#expired)
  for _, member in ipairs(expired) do say(member) end
  return i + 1
end

-- reclaim gives back what an instance has reserved, and when that is all
-- forgets it. It returns whether it did.
local function reclaim(inst, limit)
  local queue = PREFIX .. 'reserved:' .. inst
  sum.changed = true
  call('DEL', PREFIX .. 'batch:' .. inst)
  give_back_first(inst, call('ZRANGE', queue, '0', format('%d', limit - 1)), 1, limit, ARROWS['give-backV'])
  if call('EXISTS', queue) == 1 then return false end
  flush()
  for _, tube in ipairs(call('ZRANGE', PREFIX .. 'tubes', '0', '-1')) do
    call('ZREM', PREFIX .. 'waiting:' .. tube, inst)
    if call('HDEL', PREFIX .. 'attending:' .. tube, inst) == 1 then
      attended[tube] = nil
      drop_unused(tube)
    end
  end
  call('DEL', PREFIX .. 'mail:' .. inst)
  call('ZREM', PREFIX .. 'instances', inst)
  return true
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

-- beat silence limit home sent → 1: a sign of life. Instances that gave none for
-- silence ms are given up: what they have reserved is given back, up to limit
-- jobs of each, and they have no batch to go on from. home is 1 if the tube
-- 'default', which is always there, belongs to this partition. sent is when it
-- was first sent: one that was held up for a second gives up nobody, since the
-- others' were held up as well, and may be right behind it.
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
  local silent = {}
  if NOW - ARGV[i + 3] < 1000 then
    silent = call('ZRANGEBYSCORE', PREFIX .. 'instances', '-inf', format('%.0f', NOW - ARGV[i]))
  end
  for _, inst in ipairs(silent) do
    if inst ~= ME and not reclaim(inst, tonumber(ARGV[i + 1])) then due_at(NOW) end
  end
  answer(1)
  return i + 4
end

-- resign limit → done: this instance ends; 0 if more than limit jobs were to
-- be given back, and it has to be said again
OPS['resign'] = function(i)
  local done = reclaim(ME, tonumber(ARGV[i]))
  if done then sum.changed = false end -- leave no record behind
  answer(done and 1 or 0)
  return i + 1
end

-- pass tube → 1: nobody here wants the job of which this instance was told
OPS['pass'] = function(i)
  if call('EXISTS', READY .. ARGV[i]) == 1 then roused[ARGV[i]] = (roused[ARGV[i]] or 0) + 1 end
  answer(1)
  return i + 1
end

return OPS
