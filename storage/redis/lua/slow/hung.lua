-- Jobs whose holders touch them again and again and probably hang. A job is noted when it is touched. The note is valid only until that TTR
-- ends: so nothing that ends a reservation has to know of it.

--include data: hung

local function drop_hung(keys)
  if not keys[1] then return end
  call('ZREM', PREFIX .. 'hung', unpack(keys))
  call('HDEL', PREFIX .. 'hung-since', unpack(keys))
end

-- note_hung notes that a job, which is held since sum.held_since, was touched until due, unless its worker reports how far it is. It drops
-- some notes that are not valid any more.
function SLOW.note_hung(j, due)
  if j.has_metadata and SLOW.has_reports(j) then return end
  local queue = PREFIX .. 'hung'
  drop_hung(call('ZRANGEBYSCORE', queue, '-inf', '(' .. format('%.0f', NOW), 'LIMIT', '0', '2'))
  call('ZADD', queue, format('%.0f', due), j.key)
  call('HSET', PREFIX .. 'hung-since', j.key, format('%s %.0f', sum.held_since, j.reserves))
end

-- lease_held sets sum.held_since if a leased job, which is being touched, is held for very long.
function SLOW.lease_held(j)
  local since = j.metadata.lease / 1000
  if MS - since > HUNG_AFTER * j.ttr * 1000 then sum.held_since = format('%.0f', since) end
end

-- held: carries out the next operation, a touch of a job that is held for very long
--
-- ARGV    'held', since, 'move' or 'reporting', and the arguments of that
--           since  when it was delivered, ms
-- Keys    as that; reads and writes hung, hung-since
-- Answer  as that
OPERATIONS['held'] = function(i)
  sum.held_since = ARGV[i]
  local last = OPERATIONS[ARGV[i + 1]](i + 2)
  sum.held_since = nil
  return last
end

-- list-hung: lists jobs that are noted and still held by the same holder. It drops the notes of others
--
-- ARGV    'list-hung', limit, skip
--           limit  how many notes are examined
--           skip   how many come before them
-- Keys    reads and writes hung, hung-since; reads as job-stats
-- Answer  how many notes it has dropped, so that those behind them have moved up; how many jobs; for each its id, for how many ms it is held,
--         and the answer of answer_located
OPERATIONS['list-hung'] = function(i)
  local found, ended = {}, {}
  local from = ARGV[i + 1]
  local notes = call('ZRANGE', PREFIX .. 'hung', from, format('%d', from + ARGV[i] - 1), 'WITHSCORES')
  for k = 1, #notes, 2 do
    local j = load(notes[k])
    if j then locate(j, false) end
    local due = j and j.state == 'reserved' and (j.leased and call('ZSCORE', LEASES, j.key) or SLOW.reserved_until(j.key))
    local since, reserves = string.match(call('HGET', PREFIX .. 'hung-since', notes[k]) or '', '^(%d+) (%d+)$')
    if due and tonumber(due) == tonumber(notes[k + 1]) and tonumber(reserves) == j.reserves then -- else it was delivered again
      found[#found + 1] = j
      j.due, j.since = tonumber(due), tonumber(since)
    else
      ended[#ended + 1] = notes[k]
    end
  end
  drop_hung(ended)
  answer(#ended)
  answer(#found)
  for _, j in ipairs(found) do
    answer(sub(j.key, #PREFIX + 1))
    answer(math.max(math.floor(MS - j.since), 0))
    answer_located(j, SLOW.time_left(j.due))
  end
  return i + 2
end
