-- Checks which counters differ from what is there, which lease sets are in only one of their
-- two sorted sets, and what has no timer. With repair these faults are corrected; else nothing
-- is changed.
--
-- A small partition is checked at once. A larger one is checked in steps, whose results the
-- caller adds up. What depends on several steps is doubtful, unless nothing has changed from
-- the first of them to the last.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  the step, one of STEPS
-- ARGV[5…] its arguments, described with each step
--
-- Reply: { wrong, doubtful, others… }
--   wrong     a text for each fault
--   doubtful  for each possible fault the tube, or '', and a text
--   others    described with each step
--
-- Steps that read a sorted set are given the rank of the first member, and return the rank with
-- which the next call continues, -1 at the end.

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include shared/ranges.lua

local doubtful, STEPS = {}, {}

local function number(text) return tonumber(text or 0) end
local function rank(n) return string.format('%d', n) end

-- doubt_about returns a function like note, for possible faults of a tube.
local function doubt_about(tube)
  return function(text)
    doubtful[#doubtful + 1] = tube
    doubtful[#doubtful + 1] = text
  end
end

-- compare reports a counter that is wrong, and with repair sets it.
local function compare(report, key, field, is)
  local says = number(call('HGET', PREFIX .. key, field))
  if says == is then return end
  report(string.format('%s of %s is %.0f, and should be %.0f', field, key, says, is))
  if REPAIR then call('HSET', PREFIX .. key, field, string.format('%.0f', is)) end
end

-- with_instances returns the instances in ARGV[from … upto] and all registered ones.
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

-- drop_lease_set removes a lease set from the only sorted set that has it. The jobs of one in
-- groups:INST count as reserved, so they become single members. Those of one in reserved:INST
-- seemed to be nowhere, and are ready by now.
local function drop_lease_set(inst, here, member)
  work = work + 3 * #keys_of(member, STEP)
  if here == 'groups:' then
    split_lease_set(PREFIX, inst, member, STEP)
  else
    call('ZREM', PREFIX .. here .. inst, member)
  end
end

-- check_lease_sets checks whether the lease sets in here are also in the other sorted set,
-- there. from and the result are ranks.
local function check_lease_sets(inst, here, there, from)
  repeat
    local members = call('ZRANGE', PREFIX .. here .. inst, rank(from), rank(from + 99))
    for _, member in ipairs(members) do
      if exhausted() then return from end
      work, from = work + 1, from + 1
      if #member > KEY_LENGTH and not call('ZSCORE', PREFIX .. there .. inst, member) then
        note(here .. inst .. ' has a lease set that is not in ' .. there .. inst)
        if REPAIR then
          from = from - 1
          drop_lease_set(inst, here, member)
        end
      end
    end
  until #members < 100
  return -1
end

-- What was counted: reserved jobs by tube, all of them, and those in lease sets; tombstones; and the sums
-- over tubes.
local reserved, held, in_sets = {}, 0, 0
local tombstones = 0
local sum = { urgent = 0, ready = 0, delayed = 0, buried = 0 }

-- count_one counts a reserved job. A job of a lease set without a record was deleted.
local function count_one(key, in_set)
  local raw = '' -- from the length of the tube's name on
  if string.sub(key, 1, #PREFIX) == PREFIX then raw = call('GETRANGE', key, rank(NAME_AT - 2), LONGEST_NAME) end
  if in_set and raw == '' then return end
  local tube = string.sub(raw, 2, 1 + (string.byte(raw, 1) or 0))
  reserved[tube], held = (reserved[tube] or 0) + 1, held + 1
  if in_set then in_sets = in_sets + 1 end
end

-- count_reserved counts what an instance has reserved, or the leases if inst is ''. from and
-- the result are ranks.
local function count_reserved(inst, from)
  local queue = PREFIX .. (inst == '' and 'leases' or 'reserved:' .. inst)
  repeat
    local members = call('ZRANGE', queue, rank(from), rank(from + 99))
    for _, member in ipairs(members) do
      if exhausted() then return from end
      local keys = keys_of(member, STEP)
      work, from = work + 2 * #keys, from + 1
      for _, key in ipairs(keys) do count_one(key, key ~= member) end
    end
  until #members < 100
  return -1
end

-- joined_by returns how many more jobs than one a member of ready:TUBE or lone-ready:TUBE is, and how many of
-- these are urgent.
local function joined_by(member)
  if #member <= KEY_LENGTH then return 0, 0 end
  local n, pri = string.match(member, '^;(%d+);(%d+);%d+;%w*$', KEY_LENGTH + 1)
  if not n then return 0, 0 end
  return n - 1, number(pri) < URGENT_BELOW and n - 1 or 0
end

-- count_joined returns how many more ready jobs than members a tube has, how many of them are
-- urgent, how many are lone, and the next rank; from is a rank too: those in lone-ready:TUBE follow those in
-- ready:TUBE. Reading a member is about as much work as a call.
local function count_joined(tube, from)
  local all, urgent, lone, plain = 0, 0, 0, call('ZCARD', PREFIX .. 'ready:' .. tube)
  repeat
    local is_lone = from >= plain
    local at = is_lone and from - plain or from
    local upto = is_lone and at + 999 or math.min(at + 999, plain - 1)
    local members = call('ZRANGE', PREFIX .. (is_lone and 'lone-ready:' or 'ready:') .. tube, rank(at), rank(upto))
    work, from = work + 2 + #members, from + #members
    for _, member in ipairs(members) do
      local more, more_urgent = joined_by(member)
      all, urgent = all + more, urgent + more_urgent
      if is_lone then lone = lone + more end
    end
    if is_lone and #members < 1000 then return all, urgent, lone, -1 end
  until exhausted()
  return all, urgent, lone, from
end

local function check_timers(tube)
  local due = call('ZRANGE', PREFIX .. 'delayed:' .. tube, '0', '0', 'WITHSCORES')[2]
  local timer = due and call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
  if due and due ~= HELD_SCORE and (not timer or number(timer) > number(due)) then
    note('tube ' .. tube .. ': no timer for its first delayed job')
    if REPAIR then call('ZADD', PREFIX .. 'timers', due, 'd:' .. tube) end
  end
  local pause = call('HGET', PREFIX .. 'paused', tube)
  if pause and not call('ZSCORE', PREFIX .. 'timers', 'p:' .. tube) then
    note('tube ' .. tube .. ': no timer for the end of its pause')
    if REPAIR then call('ZADD', PREFIX .. 'timers', string.match(pause, '%d+$'), 'p:' .. tube) end
  end
end

-- compare_totals compares the counters of jobs put and deleted with the number of jobs in the
-- tube.
local function compare_totals(tube, total, deleted, jobs)
  if total < jobs then
    compare(doubt_about(tube), 'tube:' .. tube, 'total', jobs + deleted)
  elseif deleted ~= total - jobs then
    compare(doubt_about(tube), 'tube:' .. tube, 'deletes', total - jobs)
  end
end

-- check_tube checks the counters of a tube with that many reserved jobs. all, urgent and lone are the
-- sums of what count_joined returns. If they are nil they are counted here, unless there are
-- too many members: then the tube is not checked, and false is returned.
local function check_tube(tube, is_reserved, all, urgent, lone)
  local key = 'tube:' .. tube
  local members = call('ZCARD', PREFIX .. 'ready:' .. tube) + call('ZCARD', PREFIX .. 'lone-ready:' .. tube)
  local report = all and doubt_about(tube) or note
  if not all and members > MOST then return false end
  if not all then all, urgent, lone = count_joined(tube, 0) end
  compare(report, key, 'joined', all)
  compare(report, key, 'joined-urgent', urgent)
  compare(report, key, 'joined-lone', lone)
  local have = call('HMGET', PREFIX .. key, 'joined', 'joined-urgent', 'total', 'deletes', 'pending')
  local ready = members + number(have[1]) + call('ZCARD', PREFIX .. 'lane-ready:' .. tube)
  local delayed, buried = call('ZCARD', PREFIX .. 'delayed:' .. tube), call('ZCARD', PREFIX .. 'buried:' .. tube) + number(have[5])
  sum.ready, sum.delayed, sum.buried = sum.ready + ready, sum.delayed + delayed, sum.buried + buried
  for _, queue in ipairs({ 'ready:', 'lane-ready:', 'lone-ready:' }) do
    sum.urgent = sum.urgent + call('ZCOUNT', PREFIX .. queue .. tube, '-inf', '(' .. URGENT_BELOW)
  end
  sum.urgent = sum.urgent + number(have[2])
  compare_totals(tube, number(have[3]), number(have[4]), ready + delayed + buried + is_reserved)
  check_timers(tube)
  work = work + 14
  return true
end

-- count_tombstones returns how many tombstones a list has from a rank on, and the next rank.
local function count_tombstones(over, from)
  local first = from
  repeat
    local part = #call('LRANGE', PREFIX .. 'tombstones:' .. over, rank(from), rank(from + 999))
    work, from = work + 1 + part, from + part
    if part < 1000 then return from - first, -1 end
  until exhausted()
  return from - first, from
end

-- check_sums checks the counters over all tubes.
local function check_sums()
  local report = doubt_about('')
  for _, name in ipairs({ 'urgent', 'delayed', 'buried' }) do compare(report, 'counts', name, sum[name]) end
  compare(report, 'counts', 'grouped', in_sets)
  if call('HEXISTS', PREFIX .. 'counts', 'held-keys') == 1 then compare(report, 'counts', 'held-keys', tombstones) end -- else see slow/tick.lua
  local have = call('HMGET', PREFIX .. 'counts', 'ids', 'skipped')
  local jobs = sum.ready + sum.delayed + sum.buried + held
  compare(report, 'counts', 'deleted', math.max(number(have[1]) - number(have[2]) - jobs, 0))
end

-- changes → a text that differs after any instance has changed anything
function STEPS.changes()
  local all = with_instances(1, 0)
  for k, inst in ipairs(all) do all[k] = inst .. call('GETRANGE', PREFIX .. 'batch:' .. inst, '0', '15') end
  return redis.sha1hex(table.concat(all, ' '))
end

-- lease-sets instance here there from → next rank
STEPS['lease-sets'] = function()
  return check_lease_sets(ARGV[5], ARGV[6], ARGV[7], number(ARGV[8]))
end

-- reserved instance from → next rank, all jobs, those in lease sets, and tubes with their numbers of
-- jobs. The instance '' means the leases
function STEPS.reserved()
  local next_rank, tubes = count_reserved(ARGV[5], number(ARGV[6])), {}
  for tube, n in pairs(reserved) do
    tubes[#tubes + 1] = tube
    tubes[#tubes + 1] = n
  end
  return next_rank, held, in_sets, tubes
end

-- joined tube from → next rank, all, urgent, lone
function STEPS.joined()
  local all, urgent, lone, next_rank = count_joined(ARGV[5], number(ARGV[6]))
  return next_rank, all, urgent, lone
end

-- tubes {tube reserved all urgent lone}… → how many were checked; 1 if the next one has so many members
-- that its all, urgent and lone must be given; and the sums urgent, ready, delayed, buried
function STEPS.tubes()
  local done, too_many = 0, 0
  for k = 5, #ARGV, 5 do
    if exhausted() then break end
    local all, urgent, lone = tonumber(ARGV[k + 2]), tonumber(ARGV[k + 3]), tonumber(ARGV[k + 4])
    if not check_tube(ARGV[k], number(ARGV[k + 1]), all, urgent, lone) then
      too_many = 1
      break
    end
    done = done + 1
  end
  return done, too_many, sum.urgent, sum.ready, sum.delayed, sum.buried
end

-- mark_of returns a text that differs after a job of a tube was put or removed, or a checkpoint was saved with another size, and after
-- the tube was dropped.
local function mark_of(tube)
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'resized')
  return (call('ZSCORE', PREFIX .. 'tubes', tube) or '') .. ' ' .. (have[1] or '0') .. ' ' .. (have[2] or '0') .. ' ' .. (have[3] or '0')
end

-- marks tubes… → the mark of each
function STEPS.marks()
  local marks = {}
  for k = 5, #ARGV do marks[#marks + 1] = mark_of(ARGV[k]) end
  return marks
end

-- bytes {tube bytes mark}… → how many were not compared, because their marks differ; '' matches any
function STEPS.bytes()
  local left = 0
  for k = 5, #ARGV, 3 do
    local mark = mark_of(ARGV[k])
    if ARGV[k + 2] ~= '' and ARGV[k + 2] ~= mark then
      left = left + 1
    elseif string.sub(mark, 1, 1) ~= ' ' then
      compare(note, 'tube:' .. ARGV[k], 'bytes', number(ARGV[k + 1]))
    end
  end
  return left
end

-- tombstones time from → next rank in the list of that time, how many were counted
function STEPS.tombstones()
  local n, next_rank = count_tombstones(ARGV[5], number(ARGV[6]))
  return next_rank, n
end

-- checkpoints n bytes → nothing
function STEPS.checkpoints()
  compare(note, 'counts', 'checkpoints', number(ARGV[5]))
  compare(note, 'counts', 'checkpoint-bytes', number(ARGV[6]))
end

-- sums urgent ready delayed buried reserved in_sets tombstones → nothing
function STEPS.sums()
  for k, name in ipairs({ 'urgent', 'ready', 'delayed', 'buried' }) do sum[name] = number(ARGV[4 + k]) end
  held, in_sets, tombstones = number(ARGV[9]), number(ARGV[10]), number(ARGV[11])
  check_sums()
end

local function check_all_lease_sets(inst)
  return check_lease_sets(inst, 'groups:', 'reserved:', 0) < 0 and check_lease_sets(inst, 'reserved:', 'groups:', 0) < 0
end

-- at_once checks these tubes in this call, or everything if tubes is nil. It returns 1 if that
-- was possible.
local function at_once(instances, tubes)
  if count_reserved('', 0) >= 0 then return 0 end
  for _, inst in ipairs(instances) do
    if not tubes and not check_all_lease_sets(inst) then return 0 end
    if count_reserved(inst, 0) >= 0 then return 0 end
  end
  for _, tube in ipairs(tubes or call('ZRANGE', PREFIX .. 'tubes', '0', '-1')) do
    if exhausted() or not check_tube(tube, reserved[tube] or 0) then return 0 end
  end
  if not tubes then
    for _, over in ipairs(call('ZRANGE', PREFIX .. 'tombstones', '0', '-1')) do
      local n, next_rank = count_tombstones(over, 0)
      if next_rank >= 0 or exhausted() then return 0 end
      tombstones = tombstones + n
    end
    check_sums()
  end
  return 1
end

-- all instances… → 1 if the partition was small enough to be checked in one call: then its doubts are
-- certain. Not for a repair
function STEPS.all()
  if call('ZCARD', PREFIX .. 'tubes') > MOST / 10 then return 0 end
  return at_once(with_instances(5, #ARGV), nil)
end

-- again n instances… tubes… → 1 if these tubes, except for those that do not exist any more, were
-- checked in one call: then their doubts are certain. Not for a repair
function STEPS.again()
  local tubes, last = {}, 5 + ARGV[5]
  for k = last + 1, #ARGV do
    if call('ZSCORE', PREFIX .. 'tubes', ARGV[k]) then tubes[#tubes + 1] = ARGV[k] end
  end
  return at_once(with_instances(6, last), tubes)
end

return { wrong, doubtful, STEPS[ARGV[4]]() }
