-- How a job moves: out of the place of its state, along an arrow, into its new place.

-- joined_in returns how many more ready jobs than members a tube has.
local function joined_in(tube)
  return tonumber(call('HGET', PREFIX .. 'tube:' .. tube, 'joined') or 0) + (joined[tube] or 0)
end

-- is_in returns whether a ready job is in a queue. If it is in a range, j.range is that range,
-- j.range_size how many jobs it has, and j.range_before how many of them precede j.
local function is_in(queue, j)
  if call('ZSCORE', queue, j.key) then return true end
  j.range, j.range_size, j.range_before = range_by_bytes(queue, j.key, partitions)
  if not j.range and joined_in(j.tube) ~= 0 then
    j.range, j.range_size, j.range_before = range_by_priority(queue, j.key, j.pri, partitions)
  end
  return j.range ~= nil
end

local function is_ready(j)
  if group_of(j) then return SLOW.groups().is_ready(j) end
  return is_in(READY .. j.tube, j)
end

-- locate determines whether a job that is 'ready' by its record is reserved. mine says whether
-- the connection that asks held it before this batch: an operation on a job is never in the
-- call in which the connection gets the job.
local function locate(j, mine)
  j.mine = mine
  if j.state == 'ready' and (mine or not is_ready(j)) then j.state = 'reserved' end
  if j.has_metadata and not mine then SLOW.locate_tagged(j) end
end

-- leave_range removes a ready job from its range in a queue. Up to two parts of that are left.
local function leave_range(queue, j, lone)
  local pri, parts = format('%.0f', j.pri), {}
  local terms = string.match(j.range, '^;%d+;(.*)', KEY_LENGTH + 1)
  local function add_part(first, n)
    if n == 0 then return end
    parts[#parts + 1], parts[#parts + 2] = pri, range_of(first, n, terms)
    add_joined(j.tube, pri, n - 1, lone)
  end
  add_part(sub(j.range, 1, KEY_LENGTH), j.range_before)
  add_part(key_of(id_of(j.key) + partitions), j.range_size - j.range_before - 1)
  call('ZREM', queue, j.range)
  call('ZADD', queue, unpack(parts))
  add_joined(j.tube, pri, 1 - j.range_size, lone)
  j.range = nil
end
SLOW.is_in, SLOW.leave_range = is_in, leave_range

-- split splits an instance's lease set, and returns the keys of the jobs that are left.
local function split(inst, member)
  local left = split_lease_set(PREFIX, inst, member, partitions)
  sum.changed, sum.in_sets = true, sum.in_sets - #left
  return left
end

-- unreserve removes a job from what an instance has reserved, and returns whether it was there.
local function unreserve(inst, key)
  if call('ZREM', PREFIX .. 'reserved:' .. inst, key) == 1 then return true end
  local set = range_by_bytes(PREFIX .. 'groups:' .. inst, key, partitions)
  if not set then return false end
  split(inst, set)
  return call('ZREM', PREFIX .. 'reserved:' .. inst, key) == 1
end

-- leave_place removes a job from the place of its state. Its priority must be unchanged since
-- it was added. A reserved job must be this instance's, or leased.
local function leave_place(j)
  if not j.stays then left(j) end
  if j.leased then
    call('ZREM', LEASES, j.key)
  elseif j.state == 'reserved' then
    unreserve(INSTANCE, j.key)
  elseif j.state == 'ready' then
    if not j.group then
      if j.range then
        leave_range(READY .. j.tube, j)
      else
        call('ZREM', READY .. j.tube, j.key)
      end
    end
    if j.pri < URGENT_BELOW then sum.urgent = sum.urgent - 1 end
  else
    call('ZREM', PREFIX .. j.state .. ':' .. j.tube, j.key)
    sum[j.state] = sum[j.state] - 1
  end
end

-- gathered is, by tube, the entries to be added to the ready jobs, while follow_all makes many
-- jobs ready; else it is nil.
local gathered

local function enter_ready(j)
  local pri, group = format('%.0f', j.pri), group_of(j)
  if limited and not group and not (gathered and gathered[j.tube]) then SLOW.groups().plain_ready(j.tube) end
  if group then
    SLOW.groups().enter_ready(j, group)
  elseif gathered then
    local entries = gathered[j.tube] or {}
    entries[#entries + 1], entries[#entries + 2], gathered[j.tube] = pri, j.key, entries
  else
    call('ZADD', READY .. j.tube, pri, j.key)
  end
  if j.pri < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
  wakeups[j.tube] = (wakeups[j.tube] or 0) + 1
end

-- enter_delayed adds jobs of a tube to the delayed ones, all with one delay. The timer of a
-- tube can fire before its first delayed job is due, never after it. Removing a job leaves the
-- timer as it is.
local function enter_delayed(tube, delay, keys)
  local due, entries = NOW_UP + delay * 1000, {}
  local score = format('%.0f', due)
  for _, key in ipairs(keys) do entries[#entries + 1], entries[#entries + 2] = score, key end
  add_all(PREFIX .. 'delayed:' .. tube, entries)
  sum.delayed = sum.delayed + #keys
  local timer = call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
  if not timer or tonumber(timer) > due then call('ZADD', PREFIX .. 'timers', score, 'd:' .. tube) end
  note_due(due)
end

local function enter_reserved(j)
  local due = NOW_UP + j.ttr * 1000
  call('ZADD', j.leased and LEASES or RESERVED, format('%.0f', due), j.key)
  note_due(due)
  if sum.held_since then SLOW.note_hung(j, due) end
  if limited and not j.stays then SLOW.groups().started(j, group_of(j)) end
end

local function enter_buried(j)
  call('ZADD', PREFIX .. 'buried:' .. j.tube, format('%.0f', count_up(COUNTS, 'burials', 1)), j.key)
  sum.buried = sum.buried + 1
  if sum.keeping or j.has_metadata then SLOW.tell_buried(j) end
end

-- enter_later makes a job, which is in no place, delayed, with a delay in seconds.
local function enter_later(j, delay)
  j.state = 'delayed'
  enter_delayed(j.tube, delay, { j.key })
  if group_of(j) then SLOW.groups().entered(j, j.group) end
end

-- enter adds a job, which is in no place, to that of a state. Nothing else sets the state of an
-- existing job. Delayed with a delay of 0 means ready.
local function enter(j, state)
  if state == 'delayed' and j.delay == 0 then state = 'ready' end
  j.state = state
  if state == 'ready' then
    enter_ready(j)
  elseif state == 'reserved' then
    enter_reserved(j)
  elseif state == 'delayed' then
    enter_later(j, j.delay)
  else
    enter_buried(j)
    if group_of(j) then SLOW.groups().entered(j, j.group) end
  end
  if j.has_metadata then SLOW.entered_batch(j) end
end

-- arrow_for returns the arrow for a move of a located job; nil if there is none, or it is only
-- for the holder, who is somebody else.
local function arrow_for(j, move)
  local arrow = move .. ' ' .. j.state
  if not ARROW_TO[arrow] or ARROW_HELD[arrow] and not j.mine then return nil end
  return arrow
end

-- grow increments a counter of a job, which has 32 bits.
local function grow(j, counter)
  if counter then j[counter] = (j[counter] + 1) % 4294967296 end
end

-- size_of returns the size of the body of a job in bytes.
local function size_of(j)
  local size = length_of(j.key) - #j.tube - NAME_AT + 1
  return j.has_metadata and size - SLOW.metadata_size(j) or size
end

-- keep keeps the record of a job that is about to be deleted, if its rules say so. j.how is how it ends, as a word of tube.How; nil for
-- 'deleted'. j.to_tube and j.to_id say which job has taken its place.
local function keep(j)
  if (sum.keeping or j.has_metadata) and j.ends ~= 'withdrawn' then SLOW.keep_ended(j) end
end

-- delete deletes a job that is in no place any more.
local function delete(j)
  bytes[j.tube] = (bytes[j.tube] or 0) - size_of(j)
  keep(j)
  if j.has_metadata then
    SLOW.ended_batch(j)
    SLOW.forget_metadata(j)
    if SLOW.has_reports(j) then SLOW.forget_reports(j) end
  end
  lengths[j.key] = nil
  call('DEL', j.key)
  sum.deleted = sum.deleted + 1
  deletes[j.tube] = (deletes[j.tube] or 0) + 1
  SLOW.note('deletes', j.tube, 1)
  SLOW.gone_from(j.tube)
end

-- has_policy returns whether a tube has a policy, of its own or by a prefix. Each tube is looked up
-- once in a call, and none if there is no policy at all.
local policies, any_policy = {}, nil
local function has_policy(tube)
  if any_policy == nil then any_policy = call('EXISTS', PREFIX .. 'policies', PREFIX .. 'prefixes') > 0 end
  return any_policy and SLOW.policy_of(tube) ~= nil
end

-- is_ruled returns whether rules of the job or its tube decide what happens after a reservation.
local function is_ruled(j)
  return j.has_metadata or has_policy(j.tube)
end

-- follow moves a job, which is in no place any more, along an arrow, and writes it. A
-- reservation is counted when the job leaves the reserved state, see package schema.
local function follow(j, arrow)
  local from, to = j.state, ARROW_TO[arrow]
  sum.changed = true
  if to == 'gone' then
    if j.leased and j.metadata then SLOW.note_run(j.tube, math.max(MS - j.metadata.lease / 1000, 0)) end
    j.ends, j.how = j.ends or 'done', ARROW_HELD[arrow] and 'done' or 'deleted'
    delete(j)
    return
  end
  if to ~= 'reserved' then
    if from == 'reserved' then
      if not sum.ended_by_server then
        grow(j, 'reserves')
      elseif j.has_metadata and SLOW.has_reports(j) then
        SLOW.keep_progress(j)
      end
      j.is_counted = true
    end
    grow(j, ARROW_COUNTS[arrow])
    if ARROW_COUNTS[arrow] then SLOW.note(ARROW_COUNTS[arrow], j.tube, 1) end
  end
  if sum.reason or from == 'reserved' and is_ruled(j) then SLOW.note_failure(j, arrow) end
  if arrow == 'snooze reserved' then
    SLOW.note('snoozes', j.tube, 1)
    SLOW.discount(j)
    if SLOW.lapse_if_over(j) then return end
  end
  if sum.reports then SLOW.report(j, sum.reports) end
  if (arrow == 'kick-job buried' or arrow == 'kick-job delayed') and j.has_metadata and not sum.keeps_checkpoint and SLOW.has_reports(j) then
    SLOW.report(j, { checkpoint = '' })
  end
  if from == 'buried' and j.has_metadata then SLOW.unpark(j, arrow) end
  if ARROW_ENDS[arrow] and is_ruled(j) then
    SLOW.come_back(j, arrow)
    return
  end
  enter(j, to)
  save(j)
end

-- follow_all moves members of a queue, which are all in one state, along an arrow. Those that
-- have no record leave the queue too.
local function follow_all(queue, state, keys, arrow)
  if #keys == 0 then return end
  call('ZREM', queue, unpack(keys))
  sum.changed, gathered = true, {}
  for _, key in ipairs(keys) do
    local j = load(key)
    if j then
      j.state = state
      left(j)
      if state ~= 'reserved' then sum[state] = sum[state] - 1 end
      follow(j, arrow)
    end
  end
  for tube, entries in pairs(gathered) do add_all(READY .. tube, entries) end
  gathered = nil
end
