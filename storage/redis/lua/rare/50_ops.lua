-- The operations of clients that move single jobs. 0 alone always means not
-- found.

-- put-delayed tube known delay n records…: new jobs with a delay
OPS['put-delayed'] = function(i)
  local tube, upto, members = ARGV[i], i + 3 + ARGV[i + 3], {}
  for k = i + 4, upto do members[#members + 1] = new_job(ARGV[k]) end
  sum.changed = true
  delayed_in(tube, tonumber(ARGV[i + 2]), members)
  totals[tube] = (totals[tube] or 0) + #members
  if ARGV[i + 1] ~= '1' then OPS.put_in(tube) end
  return upto + 1
end

-- best_of returns the unpaused one of the tubes at ARGV[from … upto] that has
-- the best ready job, the job's priority and its id; nil if there is none.
local function best_of(from, upto)
  local best, best_pri, best_tube
  for k = from, upto do
    local tube = ARGV[k]
    if not is_paused(tube) then
      local head = call('ZRANGE', READY .. tube, '0', '0', 'WITHSCORES')
      local member, pri = head[1] and sub(head[1], 1, LENGTH), tonumber(head[2])
      if member and (not best or pri < best_pri or pri == best_pri and member < best) then
        best, best_pri, best_tube = member, pri, tube
      end
    end
  end
  return best_tube, best_pri, best
end

-- await has the instance told of the next job in the tubes at ARGV[from … upto].
local function await(from, upto)
  for k = from, upto do call('ZADD', PREFIX .. 'waiting:' .. ARGV[k], 'NX', format('%.0f', NOW), ME) end
end

-- take_best takes the best ready job of the tubes at ARGV[from … upto] unless
-- refuses, a function of its priority and id, says no. It returns 1 if it did, 2 if
-- the record is too large for the reply, and 0 if there is no such job.
local function take_best(from, upto, refuses)
  while true do
    local tube, pri, member = best_of(from, upto)
    if not tube or refuses and refuses(pri, member) then return 0 end
    local got, _, cut = reserve_first(tube, 1)
    if got == 1 then return 1 end
    if cut then return 2 end
  end
end

-- take-any wait n tubes… → 1, see taken and records; 2 if it is cut; or 0, and if
-- wait is 1 the instance is told of the next job.
OPS['take-any'] = function(i)
  local from, upto = i + 2, i + 1 + ARGV[i + 1]
  local got = take_best(from, upto)
  answer(got)
  if got == 0 and ARGV[i] == '1' then await(from, upto) end
  return upto + 1
end

-- The next two are a take from the tubes of several partitions, see search.go.

-- best wait n tubes… → 1, pri, id: the best ready job of the tubes; or 0, and if
-- wait is 1 the instance is told of the next one.
OPS['best'] = function(i)
  local from, upto = i + 2, i + 1 + ARGV[i + 1]
  local tube, pri, member = best_of(from, upto)
  answer(tube and 1 or 0)
  if tube then
    answer(pri)
    say(member)
  elseif ARGV[i] == '1' then
    await(from, upto)
  end
  return upto + 1
end

-- take-before pri id n tubes… → 1, see taken and records; 2 if it is cut; or 0: the
-- tubes' best ready job is taken if it comes before the job id with the priority pri.
OPS['take-before'] = function(i)
  local pri, id, from, upto = tonumber(ARGV[i]), ARGV[i + 1], i + 3, i + 2 + ARGV[i + 2]
  answer(take_best(from, upto, function(its, member) return not (its < pri or its == pri and member < id) end))
  return upto + 1
end

-- move name mine id pri delay → 1, 1 if the job is now reserved (else 0); for
-- reserve-job also id, record; 2 if that is cut; 0 if not found. mine is 1 if the
-- connection held the job before this batch. pri and delay are for release, pri for
-- bury.
OPS['move'] = function(i)
  local move, member = ARGV[i], ARGV[i + 2]
  local whole = move == 'reserve-job'
  if whole and not fits(member) then
    answer(2)
    return i + 5
  end
  local j = (whole and load_whole or load)(member)
  if j then locate(j, ARGV[i + 1] == '1') end
  local arrow = j and arrow_for(j, move)
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
  follow(j, arrow)
  answer(1)
  answer(arrow_to(arrow) == 'V' and 1 or 0)
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
  local members = bound > 0 and call('ZRANGE', queue, '0', format('%d', bound - 1)) or {}
  follow_all(queue, state, members, ARROWS['kick-job' .. state])
  answer(#members)
  answer_text(state)
  return i + 3
end

local function peek(member)
  if member and not fits(member) then
    answer(2)
    return
  end
  local j = member and load_whole(member)
  if j then
    answer(1)
    answer_job(j)
  else
    answer(0)
  end
end

-- peek id → 1, id, record; 2 if that is cut
OPS['peek'] = function(i)
  peek(ARGV[i])
  return i + 1
end

-- head queue tube → 1, id, record; 2 if that is cut; queue is ready, delayed or buried
OPS['head'] = function(i)
  local first = call('ZRANGE', PREFIX .. ARGV[i] .. ':' .. ARGV[i + 1], '0', '0')[1]
  peek(first and sub(first, 1, LENGTH))
  return i + 2
end

-- give_back makes a job ready that an instance has reserved.
local function give_back(inst, member, arrow)
  if not unreserve(inst, member) then return end
  sum.changed = true
  local j = load(member)
  if j then
    j.state = 'V'
    follow(j, arrow)
  end
end

-- give-back n ids… → 1
OPS['give-back'] = function(i)
  local upto = i + ARGV[i]
  for k = i + 1, upto do
    give_back(ME, ARGV[k], ARROWS['give-backV'])
  end
  answer(1)
  return upto + 1
end
