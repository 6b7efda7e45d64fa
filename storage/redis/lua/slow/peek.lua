-- Operations that show a job and change nothing.

-- answer_peek answers with a job, if there is one; key can be nil. It is in the reply's ids and
-- records like one that was taken, so that Lua does not read a large one.
local function answer_peek(key)
  if not key or call('EXISTS', key) == 0 then
    answer(NOT_FOUND)
  elseif not fits(key) then
    answer(CUT)
  else
    answer(DONE)
    taken[#taken + 1] = key
    add_record(key)
  end
end

-- peek: returns a job
--
-- ARGV    'peek', id
-- Keys    reads the record
-- Answer  DONE, and the job is in the reply's ids and records; or CUT or NOT_FOUND
OPERATIONS['peek'] = function(i)
  answer_peek(ARGV[i])
  return i + 1
end

-- head: returns the first job of a tube in a state, for ready ones that which a take would get, or if
-- none may start the first one
--
-- ARGV    'head', state, tube
--           state  'ready', 'delayed' or 'buried'
-- Keys    reads ready:, delayed: or buried:TUBE, and the record
-- Answer  as peek
OPERATIONS['head'] = function(i)
  local state, tube = ARGV[i], ARGV[i + 1]
  local limits, first = state == 'ready' and limits_in(tube), nil
  if limits then
    first = SLOW.groups().peek(limits)
  else
    first = call('ZRANGE', PREFIX .. state .. ':' .. tube, '0', '0')[1]
  end
  answer_peek(first and sub(first, 1, KEY_LENGTH))
  return i + 2
end

-- get-checkpoint: returns the checkpoint of a job, see tagged/reports.lua
--
-- ARGV    'get-checkpoint', id
-- Keys    reads checkpoint:ID
-- Answer  DONE and the checkpoint; CUT; or NOT_FOUND if there is none
OPERATIONS['get-checkpoint'] = function(i)
  local key = PREFIX .. 'checkpoint:' .. sub(ARGV[i], #PREFIX + 1)
  local size = call('STRLEN', key)
  if size == 0 then
    answer(NOT_FOUND)
  elseif carried > 0 and carried + size > BUDGET then
    answer(CUT)
  else
    answer(DONE)
    answer_text(call('GET', key))
    carried = carried + size
  end
  return i + 1
end
