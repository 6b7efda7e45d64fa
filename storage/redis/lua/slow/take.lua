-- Takes from several tubes. Jobs are ordered by priority and id.

-- Whether the operation tries its tubes in their order, see first.
local in_order = false

-- limits_in returns what groups/ knows of a tube; nil if it has neither limits nor groups.
local function limits_in(tube) return limited and SLOW.groups().find(tube) or nil end

-- offer_of returns priority, key and group of the next job of a tube; nil if none may start.
local function offer_of(tube)
  local t = limits_in(tube)
  if t then return SLOW.groups().offer(t) end
  local head = call('ZRANGE', READY .. tube, '0', '0', 'WITHSCORES')
  return tonumber(head[2]), head[1] and sub(head[1], 1, KEY_LENGTH)
end

-- best_of returns, of the best ready job in those of the tubes at ARGV[from … upto] that are
-- not paused, the tube, the priority, the key, the index of the tube in ARGV, and the group; nil if
-- there is none. If in_order is set, it is the best job of the first of the tubes that has one.
local function best_of(from, upto)
  local best_tube, best_pri, best, best_at, best_group
  for k = from, upto do
    local tube = ARGV[k]
    if not is_paused(tube) then
      local pri, key, group = offer_of(tube)
      if key and (not best or pri < best_pri or pri == best_pri and key < best) then
        best_tube, best_pri, best, best_at, best_group = tube, pri, key, k, group
        if in_order then break end
      end
    end
  end
  return best_tube, best_pri, best, best_at, best_group
end
SLOW.best_of = best_of

-- take_offered takes up to n of the next jobs of a tube. It returns what reserve_first returns.
local function take_offered(tube, n)
  local t = limits_in(tube)
  if t then return SLOW.groups().take(t, n) end
  return reserve_first(tube, n, READY .. tube)
end
SLOW.take_offered = take_offered

-- first: carries out the take that follows, or best, but for the best job of the first tube that
-- has one
--
-- ARGV    'first'
OPERATIONS['first'] = function(i)
  in_order = true
  local following = OPERATIONS[ARGV[i]](i + 1)
  in_order = false
  return following
end

-- await_limited notes that clients wait for a job of a tube which has limits or groups.
function SLOW.await_limited(tube)
  if limits_in(tube) then call('HSET', PREFIX .. 'limited-waits', tube, '') end
end

-- await registers the instance for a wake-up for the tubes in ARGV[from … upto].
local function await(from, upto)
  for k = from, upto do
    if limited then SLOW.await_limited(ARGV[k]) end
    call('ZADD', PREFIX .. 'waiting:' .. ARGV[k], 'NX', format('%.0f', NOW), INSTANCE)
  end
end

-- take_best takes the best ready job of the tubes in ARGV[from … upto]. If limit_pri and limit
-- are given, the job must come before the job with that priority and key. It returns a verdict.
local function take_best(from, upto, limit_pri, limit)
  if not reserve_first then define_take() end
  while true do
    local tube, pri, key = best_of(from, upto)
    if not tube then return NOT_FOUND end
    if limit and not (pri < limit_pri or pri == limit_pri and key < limit) then return NOT_FOUND end
    local got, _, cut = take_offered(tube, 1)
    if got == 1 then return DONE end
    if cut then return CUT end
  end
end

-- take-any: reserves the best ready job of several tubes
--
-- ARGV    'take-any', wait, n, tubes…
--           wait  1 if a client waits: if there is no job, the instance is registered for a wake-up
-- Keys    as take, of each tube
-- Answer  DONE, and the job is in the reply's ids and records; CUT or NOT_FOUND
OPERATIONS['take-any'] = function(i)
  local wait, from, last = ARGV[i] == '1', i + 2, i + 1 + ARGV[i + 1]
  local verdict = take_best(from, last)
  answer(verdict)
  if verdict == NOT_FOUND and wait then await(from, last) end
  return last + 1
end

-- The next two operations are the steps of a take from tubes of several partitions, see
-- search.go.

-- best: returns the best ready job of several tubes
--
-- ARGV    'best', wait, n, tubes…
--           wait  1 if a client waits: if there is no job, the instance is registered for a wake-up
-- Keys    reads ready:TUBE and paused; writes waiting:TUBE
-- Answer  DONE, priority, key; or NOT_FOUND. After first the index of the tube, from 0, stands for
--         the priority
OPERATIONS['best'] = function(i)
  local wait, from, last = ARGV[i] == '1', i + 2, i + 1 + ARGV[i + 1]
  local tube, pri, key, at = best_of(from, last)
  if tube then
    answer(DONE)
    answer(in_order and at - from or pri)
    say(key)
  else
    answer(NOT_FOUND)
    if wait then await(from, last) end
  end
  return last + 1
end

-- take-before: reserves the best ready job of several tubes if it comes before another job
--
-- ARGV    'take-before', pri, id, n, tubes…
--           pri, id  of the other job
-- Keys    as take, of each tube
-- Answer  as take-any
OPERATIONS['take-before'] = function(i)
  local pri, id, from, last = tonumber(ARGV[i]), ARGV[i + 1], i + 3, i + 2 + ARGV[i + 2]
  answer(take_best(from, last, pri, id))
  return last + 1
end

-- take-within: reserves the best ready job of several tubes if its body is not too long and it
-- comes before another job
--
-- ARGV    'take-within', bytes, pri, id, n, tubes…
--           pri, id  of the other job; '' if there is none
-- Keys    as take, of each tube
-- Answer  as take-any
OPERATIONS['take-within'] = function(i)
  local bytes, pri, from, last = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), i + 4, i + 3 + ARGV[i + 3]
  local tube, _, key = best_of(from, last)
  local j = tube and load(key)
  if j and size_of(j) > bytes then
    answer(NOT_FOUND)
  else
    answer(take_best(from, last, pri, pri and ARGV[i + 2]))
  end
  return last + 1
end
