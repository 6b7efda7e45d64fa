-- Operations that show a job and change nothing.

-- answer_peek answers with a job, if there is one; key may be nil.
local function answer_peek(key)
  if key and not fits(key) then
    answer(CUT)
    return
  end
  local j = key and load_whole(key)
  if j then
    answer(DONE)
    answer_job(j)
  else
    answer(NOT_FOUND)
  end
end

-- peek: a job
--
-- ARGV    'peek', id
-- Keys    reads the record
-- Answer  DONE, id, record; or CUT or NOT_FOUND
OPS['peek'] = function(i)
  answer_peek(ARGV[i])
  return i + 1
end

-- head: the first job of a tube in a state
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
