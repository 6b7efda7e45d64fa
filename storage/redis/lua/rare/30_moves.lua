-- How a job moves: out of its place, along an arrow, into its new place.

-- joined_in returns how many more ready jobs than members a tube has.
local function joined_in(tube)
  return tonumber(call('HGET', PREFIX .. 'tube:' .. tube, 'joined') or 0) + (joined[tube] or 0)
end

-- is_ready returns whether a job is among the ready ones. If it is in a run, it
-- is noted which one, how many jobs that has, and how many of them come before.
local function is_ready(j)
  if call('ZSCORE', READY .. j.tube, j.member) then return true end
  j.run, j.run_has, j.run_before = run_by_bytes(READY .. j.tube, j.member, partitions)
  if not j.run and joined_in(j.tube) ~= 0 then
    j.run, j.run_has, j.run_before = run_by_priority(READY .. j.tube, j.member, j.pri, partitions)
  end
  return j.run ~= nil
end

-- leave_run takes a ready job out of its run, which becomes up to two.
local function leave_run(j)
  local pri, behind, parts = format('%.0f', j.pri), j.run_has - j.run_before - 1, {}
  local terms = string.match(j.run, '^;%d+;(.*)', LENGTH + 1)
  local function part(first, n)
    if n == 0 then return end
    parts[#parts + 1], parts[#parts + 2] = pri, run_of(first, n, terms)
    join(j.tube, pri, n - 1)
  end
  part(sub(j.run, 1, LENGTH), j.run_before)
  part(key_of(tonumber(sub(j.member, -16)) + partitions), behind)
  call('ZREM', READY .. j.tube, j.run)
  call('ZADD', READY .. j.tube, unpack(parts))
  join(j.tube, pri, 1 - j.run_has)
  j.run = nil
end

-- locate says what state a job is in, and whether who asks holds it. mine is
-- what the instance knows of that from before this batch: what a connection does
-- with a job is never in the batch in which it gets it.
local function locate(j, mine)
  j.mine = mine
  if j.state == 'R' and (mine or not is_ready(j)) then j.state = 'V' end
end

-- gathered is what is to be added to the ready jobs, by tube, while many become
-- ready at once.
local gathered

local function ready_in(j)
  local pri, entries = format('%.0f', j.pri), gathered and (gathered[j.tube] or {})
  if entries then
    entries[#entries + 1], entries[#entries + 2], gathered[j.tube] = pri, j.member, entries
  else
    call('ZADD', READY .. j.tube, pri, j.member)
  end
  if j.pri < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
  roused[j.tube] = (roused[j.tube] or 0) + 1
end

-- delayed_in puts jobs of a tube among the delayed ones, all with one delay. The
-- timer of a tube may ring before its first delayed job is due, never after it.
-- Removing a job leaves it as it is.
local function delayed_in(tube, delay, members)
  local due, entries = NOW_UP + delay * 1000, {}
  for _, member in ipairs(members) do
    entries[#entries + 1], entries[#entries + 2] = format('%.0f', due), member
  end
  add_all(PREFIX .. 'delayed:' .. tube, entries)
  sum.delayed = sum.delayed + #members
  local rings = call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
  if not rings or tonumber(rings) > due then
    call('ZADD', PREFIX .. 'timers', format('%.0f', due), 'd:' .. tube)
  end
  due_at(due)
end

local function reserved_in(j)
  j.due = NOW_UP + j.ttr * 1000
  call('ZADD', RESERVED, format('%.0f', j.due), j.member)
  due_at(j.due)
end

-- enter puts a job, which is nowhere, into a state. It is the only place
-- where a state is set.
local function enter(j, state)
  if state == 'D' and j.delay == 0 then state = 'R' end
  j.state = state
  if state == 'V' then
    reserved_in(j)
  elseif state == 'R' then
    ready_in(j)
  elseif state == 'D' then
    delayed_in(j.tube, j.delay, { j.member })
  elseif state == 'B' then
    call('ZADD', PREFIX .. 'buried:' .. j.tube, format('%.0f', count_up(COUNTS, 'burials', 1)), j.member)
    sum.buried = sum.buried + 1
  end
end

-- split makes members of their own of what is left of an instance's group, and
-- returns it.
local function split(inst, group)
  local left = split_group(PREFIX, inst, group, partitions)
  sum.changed, sum.grouped = true, sum.grouped - #left
  return left
end

-- unreserve takes a job out of what an instance has reserved, and returns whether
-- it was there.
local function unreserve(inst, member)
  if call('ZREM', PREFIX .. 'reserved:' .. inst, member) == 1 then return true end
  local group = run_by_bytes(PREFIX .. 'groups:' .. inst, member, partitions)
  if not group then return false end
  split(inst, group)
  return call('ZREM', PREFIX .. 'reserved:' .. inst, member) == 1
end

-- leave_place takes a job out of the ZSET in which it is; pri must still be
-- the one with which it went in. A reserved one must be this instance's.
local function leave_place(j)
  local state = j.state
  if state == 'V' then
    unreserve(ME, j.member)
  elseif state == 'R' then
    if j.run then
      leave_run(j)
    else
      call('ZREM', READY .. j.tube, j.member)
    end
    if j.pri < URGENT_BELOW then sum.urgent = sum.urgent - 1 end
  elseif state == 'D' then
    call('ZREM', PREFIX .. 'delayed:' .. j.tube, j.member)
    sum.delayed = sum.delayed - 1
  elseif state == 'B' then
    call('ZREM', PREFIX .. 'buried:' .. j.tube, j.member)
    sum.buried = sum.buried - 1
  end
end

local function arrow_to(arrow)
  return sub(arrow, 2, 2)
end

-- grow adds one to a counter of a job. Being reserved counts when it is over.
local function grow(j, counter)
  if counter then j[counter] = (j[counter] + 1) % 4294967296 end
end

-- follow takes a job that is in no place, and was in state from, along an
-- arrow, and writes it.
local function follow(j, arrow)
  local from, to = j.state, arrow_to(arrow)
  sum.changed = true
  if to == '-' then
    call('DEL', j.member)
    sum.deleted = sum.deleted + 1
    deletes[j.tube] = (deletes[j.tube] or 0) + 1
    OPS.gone_from(j.tube)
    return
  end
  if from == 'V' and to ~= 'V' then grow(j, 'reserves') end
  if to ~= 'V' then grow(j, COUNTERS[tonumber(sub(arrow, 3, 3))]) end
  enter(j, to)
  save(j)
end

-- arrow_for finds the arrow of a move for a job that was located; nil if there
-- is none or it is only for the holder.
local function arrow_for(j, move)
  local arrow = ARROWS[move .. j.state]
  if not arrow then return nil end
  if sub(arrow, 1, 1) == 'h' and not j.mine then return nil end
  return arrow
end

-- follow_all takes jobs along an arrow that are the members of a queue, and in
-- one state; those that have no record leave it, too.
local function follow_all(queue, state, members, arrow)
  if #members == 0 then return end
  call('ZREM', queue, unpack(members))
  sum.changed, gathered = true, {}
  for _, member in ipairs(members) do
    local j = load(member)
    if j then
      j.state = state
      if state == 'D' then sum.delayed = sum.delayed - 1 end
      if state == 'B' then sum.buried = sum.buried - 1 end
      follow(j, arrow)
    end
  end
  for tube, entries in pairs(gathered) do add_all(READY .. tube, entries) end
  gathered = nil
end
