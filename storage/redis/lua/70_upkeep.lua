-- The operations by which instances keep time, and an eye on each other.

local function expire(limit)
  local queue = PREFIX .. 'reserved:' .. ME
  local members = call('ZRANGEBYSCORE', queue, '-inf', NOW, 'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    local j = load(member)
    call('ZREM', queue, member)
    if j and j.state == 'V' and j.inst == ME then
      counts.timeouts = counts.timeouts + 1
      follow(j, ARROWS['expireV'])
    end
  end
  return #members
end

local function mature(tube, limit)
  local queue = PREFIX .. 'delayed:' .. tube
  local members = call('ZRANGEBYSCORE', queue, '-inf', NOW, 'LIMIT', 0, limit)
  for _, member in ipairs(members) do
    local j = load(member)
    if j then
      leave_place(j)
      follow(j, ARROWS['matureD'])
    else
      call('ZREM', queue, member)
    end
  end
  local head = call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  if head[1] then
    call('ZADD', PREFIX .. 'timers', head[2], 'd:' .. tube)
  else
    call('ZREM', PREFIX .. 'timers', 'd:' .. tube)
  end
  return #members
end

local function resume(tube)
  call('ZREM', PREFIX .. 'timers', 'p:' .. tube)
  call('HDEL', PREFIX .. 'paused', tube)
  if paused then paused[tube] = nil end
  roused[tube] = (roused[tube] or 0) + call('ZCARD', PREFIX .. 'ready:' .. tube)
end

-- tick limit → 1: does up to about limit things that are due
OPS['tick'] = function(i)
  local left = tonumber(ARGV[i])
  while left > 0 do
    local timer = call('ZRANGEBYSCORE', PREFIX .. 'timers', '-inf', NOW, 'LIMIT', 0, 1)[1]
    if not timer then break end
    left = left - 1
    local tube = string.sub(timer, 3)
    if string.sub(timer, 1, 1) == 'p' then
      resume(tube)
    else
      left = left - mature(tube, left + 1)
    end
  end
  if left > 0 then expire(left) end
  local timer = call('ZRANGE', PREFIX .. 'timers', 0, 0, 'WITHSCORES')[2]
  local reserved = call('ZRANGE', PREFIX .. 'reserved:' .. ME, 0, 0, 'WITHSCORES')[2]
  if timer then due_at(tonumber(timer)) end
  if reserved then due_at(tonumber(reserved)) end
  answer(1)
  return i + 1
end

-- reclaim gives back what an instance has reserved, and when that is all
-- forgets it. It returns whether it did.
local function reclaim(inst, limit)
  local queue = PREFIX .. 'reserved:' .. inst
  for _, member in ipairs(call('ZRANGE', queue, 0, limit - 1)) do
    local j = load(member)
    call('ZREM', queue, member)
    if j and j.state == 'V' and j.inst == inst then follow(j, ARROWS['give-backV']) end
  end
  if call('EXISTS', queue) == 1 then return false end
  flush()
  for _, tube in ipairs(call('ZRANGE', PREFIX .. 'tubes', 0, -1)) do
    call('ZREM', PREFIX .. 'waiting:' .. tube, inst)
    if call('HDEL', PREFIX .. 'attending:' .. tube, inst) == 1 then drop_unused(tube) end
  end
  call('DEL', PREFIX .. 'mail:' .. inst)
  call('ZREM', PREFIX .. 'instances', inst)
  return true
end

-- beat silence limit → known: a sign of life. Instances that gave none for
-- silence ms are reclaimed, up to limit jobs of each. known is 0 if this
-- instance was not known, being new or reclaimed by another one.
OPS['beat'] = function(i)
  open_tube('default')
  answer(1)
  answer(call('ZADD', PREFIX .. 'instances', NOW, ME) == 0 and 1 or 0)
  local silent = call('ZRANGEBYSCORE', PREFIX .. 'instances', '-inf', NOW - tonumber(ARGV[i]))
  for _, inst in ipairs(silent) do
    if not reclaim(inst, tonumber(ARGV[i + 1])) then due_at(NOW) end
  end
  return i + 2
end

-- resign limit → done: this instance ends; 0 if more than limit jobs were to
-- be given back, and it has to be said again
OPS['resign'] = function(i)
  answer(1)
  answer(reclaim(ME, tonumber(ARGV[i])) and 1 or 0)
  return i + 1
end

-- pass tube → 1: nobody here wants the job of which this instance was told
OPS['pass'] = function(i)
  if call('EXISTS', PREFIX .. 'ready:' .. ARGV[i]) == 1 and not is_paused(ARGV[i]) then signal(ARGV[i], 1) end
  answer(1)
  return i + 1
end
