-- The operations of clients. Each function takes the place of its first
-- argument in ARGV and returns the place behind its last one. What it answers
-- is said above it; 0 alone always means not found.

local OPS = {}

local first_id -- of this batch
local puts = 0

local function next_id()
  if not first_id then
    first_id = call('HINCRBY', PREFIX .. 'counts', 'ids', ARGV[3]) - tonumber(ARGV[3])
  end
  puts = puts + 1
  return (first_id + puts) * tonumber(ARGV[4]) + tonumber(ARGV[5])
end

-- put tube pri delay ttr body → id
OPS['put'] = function(i)
  local tube, id = ARGV[i], next_id()
  if deletes[tube] and not is_attended(tube) then flush() end -- it may have to vanish in between
  local j = {
    member = member_of(id), tube = tube, pri = tonumber(ARGV[i + 1]), delay = tonumber(ARGV[i + 2]),
    ttr = tonumber(ARGV[i + 3]), created = NOW, reserves = 0, timeouts = 0, releases = 0, buries = 0, kicks = 0,
  }
  enter(j, 'D')
  call('SET', PREFIX .. 'job:' .. j.member, header_of(j) .. string.char(#tube) .. tube .. ARGV[i + 4])
  if not totals[tube] then
    -- A new tube comes behind what has vanished before it.
    if next(deletes) and not tube_exists(tube) then flush() end
    put_into[#put_into + 1] = tube
  end
  count(totals, tube)
  counts.total = counts.total + 1
  answer(id)
  return i + 5
end

-- pop takes the best ready job out of the unpaused ones of the tubes at
-- ARGV[from … upto], and returns its id as a member; nil if there is none.
local function pop(from, upto)
  local best, best_pri, best_tube
  for k = from, upto do
    local tube = ARGV[k]
    if not is_paused(tube) then
      if from == upto then return call('ZPOPMIN', PREFIX .. 'ready:' .. tube)[1] end
      local head = call('ZRANGE', PREFIX .. 'ready:' .. tube, 0, 0, 'WITHSCORES')
      local member, pri = head[1], tonumber(head[2])
      if member and (not best or pri < best_pri or pri == best_pri and member < best) then
        best, best_pri, best_tube = member, pri, tube
      end
    end
  end
  if best then call('ZREM', PREFIX .. 'ready:' .. best_tube, best) end
  return best
end

-- take holder wait n tubes… → 1, id, body, ms until the deadline; or 0, and if wait is 1
-- the instance is told of the next job
OPS['take'] = function(i)
  local from = i + 3
  local upto = from - 1 + tonumber(ARGV[i + 2])
  while true do
    local member = pop(from, upto)
    if not member then break end
    local j = load_whole(member)
    if j then -- else its record is lost, and there is nothing to give out
      ready_out(j)
      follow(j, ARROWS['reserveR'], tonumber(ARGV[i]))
      answer(1)
      answer_job(j)
      answer(math.floor(j.due - MS))
      return upto + 1
    end
  end
  if ARGV[i + 1] == '1' then
    for k = from, upto do call('ZADD', PREFIX .. 'waiting:' .. ARGV[k], 'NX', NOW, ME) end
  end
  answer(0)
  return upto + 1
end

-- move name holder id pri delay → 1, ms until the TTR deadline (0 if the job
-- is not reserved now); for reserve-job also id, body
OPS['move'] = function(i)
  local move, holder = ARGV[i], tonumber(ARGV[i + 1])
  local whole = move == 'reserve-job'
  local j = (whole and load_whole or load)(ARGV[i + 2])
  local arrow = j and arrow_for(j, move, holder)
  if not arrow then
    answer(0)
    return i + 5
  end
  leave_place(j)
  if move == 'release' then
    j.pri, j.delay = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  elseif move == 'bury' then
    j.pri = tonumber(ARGV[i + 3])
  end
  follow(j, arrow, holder)
  answer(1)
  answer(arrow_to(arrow) == 'V' and math.floor(j.due - MS) or 0)
  if whole then answer_job(j) end
  return i + 5
end

-- kick tube bound state → n, state. bound is what one batch may kick at most;
-- state is where from, '' to choose as the rules say.
OPS['kick'] = function(i)
  local tube, bound, state = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if state == '' then
    state = call('EXISTS', PREFIX .. 'buried:' .. tube) == 1 and 'B' or 'D'
  end
  local queue = PREFIX .. (state == 'B' and 'buried:' or 'delayed:') .. tube
  local members = bound > 0 and call('ZRANGE', queue, 0, bound - 1) or {}
  for _, member in ipairs(members) do
    local j = load(member)
    if j then
      leave_place(j)
      follow(j, ARROWS['kick-job' .. state])
    else
      call('ZREM', queue, member)
    end
  end
  answer(#members)
  answer(state)
  return i + 3
end

local function peek(member)
  local j = member and load_whole(member)
  if j then
    answer(1)
    answer_job(j)
  else
    answer(0)
  end
end

-- peek id → 1, id, body
OPS['peek'] = function(i)
  peek(ARGV[i])
  return i + 1
end

-- head queue tube → 1, id, body; queue is ready, delayed or buried
OPS['head'] = function(i)
  peek(call('ZRANGE', PREFIX .. ARGV[i] .. ':' .. ARGV[i + 1], 0, 0)[1])
  return i + 2
end

-- give-back holder n ids… → 1
OPS['give-back'] = function(i)
  local holder, upto = tonumber(ARGV[i]), i + 1 + tonumber(ARGV[i + 1])
  for k = i + 2, upto do
    local j = load(ARGV[k])
    local arrow = j and arrow_for(j, 'give-back', holder)
    if arrow then
      leave_place(j)
      follow(j, arrow)
    end
  end
  answer(1)
  return upto + 1
end

