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
OPS['peek'] = function(i)
  answer_peek(ARGV[i])
  return i + 1
end

-- head: returns the first job of a tube in a state
--
-- ARGV    'head', state, tube
--           state  'ready', 'delayed' or 'buried'
-- Keys    reads ready:, delayed: or buried:TUBE, and the record
-- Answer  as peek
OPS['head'] = function(i)
  local first = call('ZRANGE', PREFIX .. ARGV[i] .. ':' .. ARGV[i + 1], '0', '0')[1]
  answer_peek(first and sub(first, 1, KEY_LENGTH))
  return i + 2
end
