-- How a job moves: out of its place, along an arrow, into its new place.

local URGENT_BELOW = 1024

local function ready_in(j)
  call('ZADD', PREFIX .. 'ready:' .. j.tube, j.pri, j.member)
  counts.ready = counts.ready + 1
  if j.pri < URGENT_BELOW then counts.urgent = counts.urgent + 1 end
  roused[j.tube] = (roused[j.tube] or 0) + 1
end

local function ready_out(j)
  counts.ready = counts.ready - 1
  if j.pri < URGENT_BELOW then counts.urgent = counts.urgent - 1 end
end

-- The timer of a tube may ring before its first delayed job is due, never
-- after it. Removing a job leaves it as it is.
local function delayed_in(j)
  j.due = NOW_UP + j.delay * 1000
  call('ZADD', PREFIX .. 'delayed:' .. j.tube, j.due, j.member)
  counts.delayed = counts.delayed + 1
  local timer = 'd:' .. j.tube
  local rings = call('ZSCORE', PREFIX .. 'timers', timer)
  if not rings or tonumber(rings) > j.due then
    call('ZADD', PREFIX .. 'timers', j.due, timer)
  end
  due_at(j.due)
end

-- enter puts a job, which is nowhere, into a state. It is the only place
-- where a state is set. holder counts for V only.
local function enter(j, state, holder)
  if state == 'D' and j.delay == 0 then state = 'R' end
  j.state = state
  if state == 'V' then
    j.inst, j.holder, j.due = ME, holder, NOW_UP + j.ttr * 1000
    call('ZADD', PREFIX .. 'reserved:' .. ME, j.due, j.member)
    due_at(j.due)
    return
  end
  j.inst, j.holder, j.due = NOBODY, 0, 0
  if state == 'R' then
    ready_in(j)
  elseif state == 'D' then
    delayed_in(j)
  elseif state == 'B' then
    call('ZADD', PREFIX .. 'buried:' .. j.tube, number('burials'), j.member)
    counts.buried = counts.buried + 1
  end
end

-- leave_place takes a job out of the ZSET in which it is; pri must still be
-- the one with which it went in.
local function leave_place(j)
  local state = j.state
  if state == 'V' then
    call('ZREM', PREFIX .. 'reserved:' .. j.inst, j.member)
  elseif state == 'R' then
    call('ZREM', PREFIX .. 'ready:' .. j.tube, j.member)
    ready_out(j)
  elseif state == 'D' then
    call('ZREM', PREFIX .. 'delayed:' .. j.tube, j.member)
    counts.delayed = counts.delayed - 1
  elseif state == 'B' then
    call('ZREM', PREFIX .. 'buried:' .. j.tube, j.member)
    counts.buried = counts.buried - 1
  end
end

local function arrow_to(arrow)
  return string.sub(arrow, 2, 2)
end

-- follow takes a job that is in no place along an arrow, and writes it.
local function follow(j, arrow, holder)
  local counter = COUNTERS[tonumber(string.sub(arrow, 3, 3))]
  if counter then j[counter] = (j[counter] + 1) % 4294967296 end
  local to = arrow_to(arrow)
  if to == '-' then
    call('DEL', PREFIX .. 'job:' .. j.member)
    counts.deleted = counts.deleted + 1
    count(deletes, j.tube)
    deletion = deletion + 1
    deleted_at[j.tube] = deletion
  else
    enter(j, to, holder)
    save(j)
  end
end

-- arrow_for finds the arrow of a move for a job; nil if there is none or it
-- is only for a holder other than this one.
local function arrow_for(j, move, holder)
  local arrow = ARROWS[move .. j.state]
  if not arrow then return nil end
  if string.sub(arrow, 1, 1) == 'h' and not (j.inst == ME and j.holder == holder) then return nil end
  return arrow
end
