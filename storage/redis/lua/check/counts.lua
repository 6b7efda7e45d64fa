-- Which counters differ from what is there, which groups are in one place only,
-- and what has no timer. It changes nothing unless it is to repair: then it sets
-- that right.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  of how many members of a queue at most all are looked at
-- ARGV[4…] instances that had reserved jobs lately
--
-- Reply: a text for each that is wrong

local PREFIX, repair, STEP, wrong = KEYS[1], ARGV[1] == '1', tonumber(ARGV[2]), {}
local call = redis.call

local function number(text) return tonumber(text or 0) end

-- differs notes a counter that is wrong, and sets it.
local function differs(key, field, is)
  local says = number(call('HGET', PREFIX .. key, field))
  if says == is then return end
  wrong[#wrong + 1] = string.format('%s of %s is %.0f, and should be %.0f', field, key, says, is)
  if repair then call('HSET', PREFIX .. key, field, string.format('%.0f', is)) end
end

local instances = {}
for k = 4, #ARGV do instances[ARGV[k]] = true end
for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do instances[inst] = true end

-- Jobs of a group that have no record any more were deleted.
local reserved, held, grouped = {}, 0, 0
local function count_reserved(id, in_group)
  local raw = ''
  if string.sub(id, 1, #PREFIX) == PREFIX then raw = call('GETRANGE', id, '41', '241') end
  if in_group and raw == '' then return end
  local tube = string.sub(raw, 2, 1 + (string.byte(raw, 1) or 0))
  reserved[tube], held = (reserved[tube] or 0) + 1, held + 1
  if in_group then grouped = grouped + 1 end
end

-- check_group looks whether the other one of the two ZSETs has a group, too. Those
-- in groups:INST count as reserved, and so are members of their own afterwards. A job
-- for which there is only the other ZSET seemed to be nowhere, and is among the ready
-- ones by now.
local function check_group(inst, group, here, there)
  if call('ZSCORE', PREFIX .. there .. inst, group) then return end
  wrong[#wrong + 1] = here .. inst .. ' has a group that is not in ' .. there .. inst
  if not repair then return end
  if here == 'groups:' then
    split_group(PREFIX, inst, group, STEP)
  else
    call('ZREM', PREFIX .. here .. inst, group)
  end
end

for inst in pairs(instances) do
  for _, group in ipairs(call('ZRANGE', PREFIX .. 'groups:' .. inst, '0', '-1')) do
    check_group(inst, group, 'groups:', 'reserved:')
  end
  for _, member in ipairs(call('ZRANGE', PREFIX .. 'reserved:' .. inst, '0', '-1')) do
    if #member > LENGTH then check_group(inst, member, 'reserved:', 'groups:') end
  end
  for _, member in ipairs(call('ZRANGE', PREFIX .. 'reserved:' .. inst, '0', '-1')) do
    for _, id in ipairs(keys_of(member, STEP)) do count_reserved(id, id ~= member) end
  end
end

local function check_timer(tube)
  local due = call('ZRANGE', PREFIX .. 'delayed:' .. tube, '0', '0', 'WITHSCORES')[2]
  local rings = call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
  if due and (not rings or number(rings) > number(due)) then
    wrong[#wrong + 1] = 'tube ' .. tube .. ': no timer for its first delayed job'
    if repair then call('ZADD', PREFIX .. 'timers', due, 'd:' .. tube) end
  end
  local pause = call('HGET', PREFIX .. 'paused', tube)
  if pause and not call('ZSCORE', PREFIX .. 'timers', 'p:' .. tube) then
    wrong[#wrong + 1] = 'tube ' .. tube .. ': no timer for the end of its pause'
    if repair then call('ZADD', PREFIX .. 'timers', string.match(pause, '%d+$'), 'p:' .. tube) end
  end
end

-- How many more ready jobs than members a tube has takes looking at all of them,
-- which is not for while instances serve, if there are many.
local function check_joined(tube)
  local members = call('ZCARD', PREFIX .. 'ready:' .. tube)
  if not repair and members > number(ARGV[3]) then return end
  local all, urgent = 0, 0
  for from = 0, members - 1, 1000 do
    local part = call('ZRANGE', PREFIX .. 'ready:' .. tube, string.format('%d', from), string.format('%d', from + 999))
    for _, member in ipairs(part) do
      local n, pri = string.match(member, '^;(%d+);(%d+);%d+;%w*$', LENGTH + 1)
      if n then
        all = all + n - 1
        if number(pri) < 1024 then urgent = urgent + n - 1 end
      end
    end
  end
  differs('tube:' .. tube, 'joined', all)
  differs('tube:' .. tube, 'joined-urgent', urgent)
end

local sum = { urgent = 0, ready = 0, delayed = 0, buried = 0 }
for _, tube in ipairs(call('ZRANGE', PREFIX .. 'tubes', '0', '-1')) do
  local here = reserved[tube] or 0
  check_joined(tube)
  for _, queue in ipairs({ 'ready', 'delayed', 'buried' }) do
    local n = call('ZCARD', PREFIX .. queue .. ':' .. tube)
    if queue == 'ready' then n = n + number(call('HGET', PREFIX .. 'tube:' .. tube, 'joined')) end
    sum[queue], here = sum[queue] + n, here + n
  end
  sum.urgent = sum.urgent + call('ZCOUNT', PREFIX .. 'ready:' .. tube, '-inf', '(1024')
    + number(call('HGET', PREFIX .. 'tube:' .. tube, 'joined-urgent'))
  local total = number(call('HGET', PREFIX .. 'tube:' .. tube, 'total'))
  if total < here then
    differs('tube:' .. tube, 'total', here + number(call('HGET', PREFIX .. 'tube:' .. tube, 'deletes')))
  else
    differs('tube:' .. tube, 'deletes', total - here)
  end
  check_timer(tube)
end

for _, name in ipairs({ 'urgent', 'delayed', 'buried' }) do differs('counts', name, sum[name]) end
differs('counts', 'grouped', grouped)
local have = call('HMGET', PREFIX .. 'counts', 'ids', 'skipped')
local there = sum.ready + sum.delayed + sum.buried + held
differs('counts', 'deleted', math.max(number(have[1]) - number(have[2]) - there, 0))
return wrong
