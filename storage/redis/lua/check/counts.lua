-- Which counters differ from what is there, which groups are in one place only,
-- and what has no timer. It changes nothing unless it is to repair: then it sets
-- that right.
--
-- All at once if a partition is small; else in steps, whose results are added up by
-- who calls. What depends on several steps is doubtful, unless nothing has changed
-- from the first of them to the last.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much the call may do, see alone.lua
-- ARGV[4]  the step, see STEPS, and behind it what that wants
--
-- Reply: { wrong, doubtful, others… }
--   wrong     a text for each that is wrong for certain
--   doubtful  texts about what may be wrong, with the tube, or '', before each
--   others    as the steps say

local PREFIX, repair, STEP = KEYS[1], ARGV[1] == '1', tonumber(ARGV[2])
local call, doubtful, STEPS = redis.call, {}, {}

local function number(text) return tonumber(text or 0) end
local function rank(n) return string.format('%d', n) end
local function exhausted() return work >= MOST end

local function note(text) wrong[#wrong + 1] = text end

-- doubt returns what notes that something of a tube may be wrong.
local function doubt(tube)
  return function(text)
    doubtful[#doubtful + 1] = tube
    doubtful[#doubtful + 1] = text
  end
end

-- differs has a counter noted that is wrong, and sets it.
local function differs(noted, key, field, is)
  local says = number(call('HGET', PREFIX .. key, field))
  if says == is then return end
  noted(string.format('%s of %s is %.0f, and should be %.0f', field, key, says, is))
  if repair then call('HSET', PREFIX .. key, field, string.format('%.0f', is)) end
end

-- with_instances adds the names of all instances to those at ARGV[from … upto].
local function with_instances(from, upto)
  local all, known = {}, {}
  local function add(inst)
    if not known[inst] then all[#all + 1] = inst end
    known[inst] = true
  end
  for k = from, upto do add(ARGV[k]) end
  for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do add(inst) end
  return all
end

-- check_groups looks whether the groups in here are in the other one of the two ZSETs,
-- too. Those in groups:INST count as reserved, and so are members of their own
-- afterwards. A job for which there is only the other ZSET seemed to be nowhere, and is
-- among the ready ones by now. It begins with the member at a rank, and returns the one
-- where to go on, -1 if there is none.
local function check_groups(inst, here, there, from)
  repeat
    local members = call('ZRANGE', PREFIX .. here .. inst, rank(from), rank(from + 99))
    for _, member in ipairs(members) do
      if exhausted() then return from end
      work, from = work + 1, from + 1
      if #member > LENGTH and not call('ZSCORE', PREFIX .. there .. inst, member) then
        note(here .. inst .. ' has a group that is not in ' .. there .. inst)
        if repair then
          from = from - 1
          work = work + 3 * #keys_of(member, STEP)
          if here == 'groups:' then
            split_group(PREFIX, inst, member, STEP)
          else
            call('ZREM', PREFIX .. here .. inst, member)
          end
        end
      end
    end
  until #members < 100
  return -1
end

-- What was counted: reserved jobs by tube, all of them, and those of groups; and the
-- sums over tubes.
local reserved, held, grouped = {}, 0, 0
local sum = { urgent = 0, ready = 0, delayed = 0, buried = 0 }

-- Jobs of a group that have no record any more were deleted.
local function count_one(id, in_group)
  local raw = ''
  if string.sub(id, 1, #PREFIX) == PREFIX then raw = call('GETRANGE', id, '41', '241') end
  if in_group and raw == '' then return end
  local tube = string.sub(raw, 2, 1 + (string.byte(raw, 1) or 0))
  reserved[tube], held = (reserved[tube] or 0) + 1, held + 1
  if in_group then grouped = grouped + 1 end
end

-- count_reserved counts what an instance has reserved. It begins and returns as
-- check_groups does.
local function count_reserved(inst, from)
  repeat
    local members = call('ZRANGE', PREFIX .. 'reserved:' .. inst, rank(from), rank(from + 99))
    for _, member in ipairs(members) do
      if exhausted() then return from end
      local ids = keys_of(member, STEP)
      work, from = work + 2 * #ids, from + 1
      for _, id in ipairs(ids) do count_one(id, id ~= member) end
    end
  until #members < 100
  return -1
end

-- count_joined counts how many more ready jobs than members a tube has, and the urgent
-- ones of these. It begins as check_groups does, and returns where to go on, too. To
-- look at a member is about as much as a call.
local function count_joined(tube, from)
  local all, urgent = 0, 0
  repeat
    local part = call('ZRANGE', PREFIX .. 'ready:' .. tube, rank(from), rank(from + 999))
    work, from = work + 1 + #part, from + #part
    for _, member in ipairs(part) do
      if #member > LENGTH then
        local n, pri = string.match(member, '^;(%d+);(%d+);%d+;%w*$', LENGTH + 1)
        if n then
          all = all + n - 1
          if number(pri) < 1024 then urgent = urgent + n - 1 end
        end
      end
    end
    if #part < 1000 then return all, urgent, -1 end
  until exhausted()
  return all, urgent, from
end

local function check_timer(tube)
  local due = call('ZRANGE', PREFIX .. 'delayed:' .. tube, '0', '0', 'WITHSCORES')[2]
  local rings = due and call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
  if due and (not rings or number(rings) > number(due)) then
    note('tube ' .. tube .. ': no timer for its first delayed job')
    if repair then call('ZADD', PREFIX .. 'timers', due, 'd:' .. tube) end
  end
  local pause = call('HGET', PREFIX .. 'paused', tube)
  if pause and not call('ZSCORE', PREFIX .. 'timers', 'p:' .. tube) then
    note('tube ' .. tube .. ': no timer for the end of its pause')
    if repair then call('ZADD', PREFIX .. 'timers', string.match(pause, '%d+$'), 'p:' .. tube) end
  end
end

-- check_tube checks the counters of a tube of which so many jobs are reserved. all and
-- urgent are how many more ready jobs than members it has; if they are nil they are
-- counted here, unless the members are too many: then it does nothing and returns
-- false.
local function check_tube(tube, is_reserved, all, urgent)
  local members, has, here = call('ZCARD', PREFIX .. 'ready:' .. tube), 'tube:' .. tube, is_reserved
  local noted = all and doubt(tube) or note
  if not all and members > MOST then return false end
  if not all then all, urgent = count_joined(tube, 0) end
  differs(noted, has, 'joined', all)
  differs(noted, has, 'joined-urgent', urgent)
  local have = call('HMGET', PREFIX .. has, 'joined', 'joined-urgent', 'total', 'deletes')
  local is = { ready = members + number(have[1]) }
  for _, queue in ipairs({ 'delayed', 'buried' }) do is[queue] = call('ZCARD', PREFIX .. queue .. ':' .. tube) end
  for queue, n in pairs(is) do
    sum[queue], here = sum[queue] + n, here + n
  end
  sum.urgent = sum.urgent + call('ZCOUNT', PREFIX .. 'ready:' .. tube, '-inf', '(1024') + number(have[2])
  local total = number(have[3])
  if total < here then
    differs(doubt(tube), has, 'total', here + number(have[4]))
  elseif number(have[4]) ~= total - here then
    differs(doubt(tube), has, 'deletes', total - here)
  end
  check_timer(tube)
  work = work + 12
  return true
end

-- check_sums checks the counters over all tubes.
local function check_sums()
  for _, name in ipairs({ 'urgent', 'delayed', 'buried' }) do differs(doubt(''), 'counts', name, sum[name]) end
  differs(doubt(''), 'counts', 'grouped', grouped)
  local have = call('HMGET', PREFIX .. 'counts', 'ids', 'skipped')
  local there = sum.ready + sum.delayed + sum.buried + held
  differs(doubt(''), 'counts', 'deleted', math.max(number(have[1]) - number(have[2]) - there, 0))
end

-- changes → what is another text after a batch of any instance has changed anything
function STEPS.changes()
  local all = with_instances(1, 0)
  for k, inst in ipairs(all) do all[k] = inst .. call('GETRANGE', PREFIX .. 'batch:' .. inst, '0', '15') end
  return redis.sha1hex(table.concat(all, ' '))
end

-- groups inst here there from → where to go on
function STEPS.groups() return check_groups(ARGV[5], ARGV[6], ARGV[7], number(ARGV[8])) end

-- reserved inst from → where to go on, held, grouped, and tubes with how many
function STEPS.reserved()
  local to, tubes = count_reserved(ARGV[5], number(ARGV[6])), {}
  for tube, n in pairs(reserved) do
    tubes[#tubes + 1] = tube
    tubes[#tubes + 1] = n
  end
  return to, held, grouped, tubes
end

-- joined tube from → where to go on, all, urgent
function STEPS.joined()
  local all, urgent, to = count_joined(ARGV[5], number(ARGV[6]))
  return to, all, urgent
end

-- tubes {tube reserved all urgent}… → how many it has checked, 1 if the next one has
-- too many ready jobs for all and urgent to be '', urgent, ready, delayed, buried
function STEPS.tubes()
  local done, too_many = 0, 0
  for k = 5, #ARGV, 4 do
    if exhausted() then break end
    local all, urgent = tonumber(ARGV[k + 2]), tonumber(ARGV[k + 3])
    if not check_tube(ARGV[k], number(ARGV[k + 1]), all, urgent) then
      too_many = 1
      break
    end
    done = done + 1
  end
  return done, too_many, sum.urgent, sum.ready, sum.delayed, sum.buried
end

-- sums urgent ready delayed buried held grouped →
function STEPS.sums()
  for k, name in ipairs({ 'urgent', 'ready', 'delayed', 'buried' }) do sum[name] = number(ARGV[4 + k]) end
  held, grouped = number(ARGV[9]), number(ARGV[10])
  check_sums()
end

-- at_once checks tubes, or all and all else, in this call, and returns whether it could.
local function at_once(instances, tubes)
  for _, inst in ipairs(instances) do
    if not tubes and (check_groups(inst, 'groups:', 'reserved:', 0) >= 0 or check_groups(inst, 'reserved:', 'groups:', 0) >= 0) then return 0 end
    if count_reserved(inst, 0) >= 0 then return 0 end
  end
  for _, tube in ipairs(tubes or call('ZRANGE', PREFIX .. 'tubes', '0', '-1')) do
    if exhausted() or not check_tube(tube, reserved[tube] or 0) then return 0 end
  end
  if not tubes then check_sums() end
  return 1
end

-- all instances… → 1 if it was possible, as only a small partition is looked at in one
-- call: then nothing of what is doubtful is. Not for a repair.
function STEPS.all()
  if call('ZCARD', PREFIX .. 'tubes') > MOST / 10 then return 0 end
  return at_once(with_instances(5, #ARGV), nil)
end

-- again n instances… tubes… → 1 if it was possible: then nothing of what is doubtful
-- is. The tubes are checked, but for those that have gone meanwhile. Not for a repair.
function STEPS.again()
  local tubes, last = {}, 5 + ARGV[5]
  for k = last + 1, #ARGV do
    if call('ZSCORE', PREFIX .. 'tubes', ARGV[k]) then tubes[#tubes + 1] = ARGV[k] end
  end
  return at_once(with_instances(6, last), tubes)
end

return { wrong, doubtful, STEPS[ARGV[4]]() }
