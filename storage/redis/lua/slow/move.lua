-- Moves of single jobs, and kicks.

-- holder_of returns which instance holds a job, which can be nil; '' if none.
local function holder_of(j)
  if not j or j.state ~= 'reserved' or j.leased then return '' end
  return select(2, SLOW.reserved_until(j.key))
end

-- answer_no_move answers that a move of a job is not possible: if it is a reserve-job, or an expire, of one that another instance holds,
-- which that is, and when it has sent its last heartbeat.
local function answer_no_move(j, move)
  local inst = (move == 'reserve-job' or move == 'expire') and holder_of(j) or ''
  if inst == '' or inst == INSTANCE then
    answer(NOT_FOUND)
    return
  end
  answer(ELSEWHERE)
  answer_text(inst .. ' ' .. (call('ZSCORE', PREFIX .. 'instances', inst) or ''))
end

-- move: moves a job along an arrow (state transition)
--
-- ARGV    'move', move, mine, id, pri, delay
--           move        its name in package tube, such as 'release'; 'expire' takes a job back from its lease or from a connection of this
--                       instance
--           mine        1 if the connection held the job before this call; 0 for expire
--           pri, delay  for moves that set them; else ignored
-- Keys    reads and writes the record; removes the job from ready:, delayed: or buried:TUBE or
--         reserved:INST, of this instance, and adds it to another; writes groups:INST, timers,
--         tube:TUBE, counts
-- Answer  DONE, and 1 if the job is reserved now, else 0; for reserve-job and seize the job is also in
--         the reply's ids and records. Or NOT_FOUND, or, for these two, CUT, or for finish NOT_KEPT, or for
--         reserve-job and expire ELSEWHERE, and an instance with its last heartbeat
OPERATIONS['move'] = function(i)
  local move, mine, key, pri, delay = ARGV[i], ARGV[i + 1] == '1', ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local seizes = move == 'seize'
  local brings = seizes or move == 'reserve-job'
  if brings and not fits(key) then
    answer(CUT)
    return i + 5
  end
  local j = load(key)
  if j then locate(j, mine) end
  local arrow = j and arrow_for(j, move)
  if arrow and brings and not seizes and limited and not SLOW.groups().may_start(j, group_of(j)) then arrow = nil end
  if arrow and move == 'expire' then
    if not j.leased and holder_of(j) ~= INSTANCE then
      arrow = nil
    else
      sum.timeouts = sum.timeouts + 1
    end
  end
  if arrow and move == 'finish' and SLOW.keep_of(j) == 0 then
    answer(NOT_KEPT)
    return i + 5
  end
  if not arrow then
    answer_no_move(j, move)
    return i + 5
  end
  j.stays, j.seized, j.ends = j.state == ARROW_TO[arrow], seizes, move == 'withdraw' and 'withdrawn' or nil
  leave_place(j)
  if ARROW_SETS_PRI[arrow] then j.pri = tonumber(pri) end
  if ARROW_SETS_DELAY[arrow] then j.delay = tonumber(delay) end
  follow(j, arrow)
  answer(DONE)
  answer(ARROW_TO[arrow] == 'reserved' and 1 or 0)
  if brings then
    taken[#taken + 1] = key
    add_record(key)
  end
  return i + 5
end

-- adjustable returns a job with its state; nil if there is none.
local function adjustable(key)
  local j = load(key)
  if j then locate(j, false) end
  return j
end

-- set-priority: changes the priority of a job that is not reserved
--
-- ARGV    'set-priority', id, pri
-- Keys    reads and writes the record; writes ready:TUBE, tube:TUBE, counts
-- Answer  1, or 0 if there is no such job
OPERATIONS['set-priority'] = function(i)
  local j = adjustable(ARGV[i])
  local state = j and j.state
  if state == 'ready' then
    leave_place(j)
    j.pri = tonumber(ARGV[i + 1])
    enter_ready(j)
  elseif state == 'delayed' or state == 'buried' then
    j.pri = tonumber(ARGV[i + 1])
  else
    answer(0)
    return i + 2
  end
  sum.changed = true
  save(j)
  answer(1)
  return i + 2
end

-- is_held returns whether a delayed job waits for a batch.
local function is_held(j)
  return j.state == 'delayed' and call('ZSCORE', PREFIX .. 'delayed:' .. j.tube, j.key) == HELD_SCORE
end

-- reschedule: makes a ready or delayed job due at another time
--
-- ARGV    'reschedule', id, ms
--           ms  from now; 0 makes it ready
-- Keys    reads and writes the record; writes ready: and delayed:TUBE, timers, tube:TUBE,
--         counts
-- Answer  1, or 0 if there is no such job
OPERATIONS['reschedule'] = function(i)
  local j, ms = adjustable(ARGV[i]), tonumber(ARGV[i + 1])
  if not j or j.state ~= 'ready' and j.state ~= 'delayed' or is_held(j) then
    answer(0)
    return i + 2
  end
  leave_place(j)
  j.delay = math.ceil(ms / 1000)
  if ms > 0 then
    enter_later(j, ms / 1000)
  else
    enter(j, 'ready')
  end
  sum.changed = true
  save(j)
  answer(1)
  return i + 2
end

-- kickable returns the state of the jobs that a kick of a tube moves.
local function kickable(tube)
  for _, state in ipairs(KICK_ORDER) do
    if call('EXISTS', PREFIX .. state .. ':' .. tube) == 1 then return state end
  end
  return KICK_ORDER[#KICK_ORDER]
end

-- kick: makes buried or delayed jobs of a tube ready, but no delayed ones that wait for a batch
--
-- ARGV    'kick', tube, limit, state
--           limit  how many at most; a call can only kick so many
--           state  of the jobs to be kicked; '' to choose it by KICK_ORDER
-- Keys    moves ids from buried: or delayed:TUBE to ready:TUBE; reads and writes the records;
--         writes counts
-- Answer  how many were kicked, and in which state they were
OPERATIONS['kick'] = function(i)
  local tube, limit, state = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if state == '' then state = kickable(tube) end
  local queue = PREFIX .. state .. ':' .. tube
  local keys = limit > 0 and call('ZRANGEBYSCORE', queue, '-inf', '(' .. HELD_SCORE, 'LIMIT', '0', format('%d', limit)) or {}
  follow_all(queue, state, keys, 'kick-job ' .. state)
  answer(#keys)
  answer_text(state)
  return i + 3
end

-- give_back makes a job ready that this instance has reserved.
local function give_back(key)
  if not unreserve(INSTANCE, key) then return end
  sum.changed = true
  local j = load(key)
  if j then
    j.state = 'reserved'
    left(j)
    follow(j, 'give-back reserved')
  end
end

-- give-back: makes jobs ready that connections of this instance held
--
-- ARGV    'give-back', n, ids…
-- Keys    moves ids from reserved:INST to ready:TUBE; reads and writes the records; splits
--         lease sets in groups:INST; writes counts
-- Answer  1
OPERATIONS['give-back'] = function(i)
  local last = i + ARGV[i]
  for k = i + 1, last do give_back(ARGV[k]) end
  answer(1)
  return last + 1
end
