-- Records of ended jobs: which jobs leave one, and operations on them. See ../call/ended.lua.

-- keep_of returns for how many ms the record of a job is kept when it ends; 0 if there is none.
function SLOW.keep_of(j)
  local f = metadata_of(j)
  if not sum.keeping and not (f and f.still) then return 0 end
  local keep = own_rules(j).keep or sum.ended().policy_of(j.tube) or 0
  return keep > 0 and sum.ended().bound() > 0 and keep or 0
end

-- size_of_texts returns how many bytes the metadata of a job counts in its record.
local function size_of_texts(f)
  local n = #f.key + #(f.group or '') + #(f.batch or '') + #(f.reason or '') + (f.occurrence and #f.occurrence - 9 or 0)
  local at = f.headers and 4 + string.byte(f.headers, 3) or 1 -- behind its size and the trace
  while at < #(f.headers or '') do
    local name, value
    name, value, at = struct.unpack('>Bc0I2c0', f.headers, at)
    n = n + #name + #value
  end
  return n
end

-- own_key makes the key in a record count, which the job had until it went to another tube: that is done in two steps if this is in another partition, and
-- the key is free after the first one.
local function own_key(e)
  local block, at = e.block, #e.block - CHANGING + 3 -- of the status
  e.block = sub(block, 1, at - 1) .. string.char(string.byte(block, at) - KEY_VOID) .. sub(block, at + 1)
  e.more = e.more + string.byte(block, 2)
end

-- keep_ended keeps the record of a job that is about to be deleted, if its rules say so. Its record must not have been changed for that.
function SLOW.keep_ended(j)
  local keep = SLOW.keep_of(j)
  if keep == 0 then return end
  local f, how, size = metadata_of(j), j.how or 'deleted', length_of(j.key)
  local e = { tube = j.tube, key = j.key, how = sum.ended().HOW[how], keep = keep, head = pack_header(j), to_tube = j.to_tube, to_id = j.to_id,
    reserved = j.state == 'reserved' and not j.is_counted, started = sum.started }
  if how == 'done' then e.holder, e.result = sum.holder, sum.result end
  if f then
    e.block = call('GETRANGE', j.key, format('%d', size - f.length - 2), format('%d', size - 3))
    e.more, e.batch = size_of_texts(f), f.batch
    if f.void and (how == 'moved' or how == 'dead') then own_key(e) end
    if j.leased then e.started = math.floor(f.lease / 1000) end
  end
  sum.ended().add(e)
end

-- keep_key does that for a job without metadata, by its key. Its state was that one.
function SLOW.keep_key(key, state)
  local j = load(key)
  if not j then return end
  j.state = state
  SLOW.keep_ended(j)
end

-- keep_held keeps the records of n jobs in ARGV, from an index on, of a tube: jobs with groups whose connections delete them. The groups follow.
function SLOW.keep_held(tube, first, n, about)
  if not sum.keeping then return end
  local lengths = {}
  for k = 1, n do lengths[k] = #ARGV[first + n + k - 1] end
  sum.ended().add_held(tube, first, first + n - 1, about, lengths)
end

-- tell_buried tells those that wait for the end of a job that it is buried.
function SLOW.tell_buried(j)
  if SLOW.keep_of(j) > 0 then sum.ended().tell({ sub(j.key, #PREFIX + 1) }) end
end

-- set_keep sets what the policy of a tube or a pattern says about records.
function SLOW.set_keep(name, text)
  local all = PREFIX .. 'keep-policies'
  local before = call('HGET', all, name) or ''
  if before == text then return end
  if text ~= '' then
    call('HSET', all, name, text)
  else
    call('HDEL', all, name)
  end
  sum.keeping = call('EXISTS', all) == 1 and '1' or nil
  if sum.keeping then call('SET', PREFIX .. 'keeping', sum.keeping) else call('DEL', PREFIX .. 'keeping') end
  sum.ended().forget_policies()
  sum.ended().tell_all()
  call('HSET', COUNTS, 'ended-look', '0')
  note_due(NOW)
end

-- ending: carries out the next operation, a move, for the record of the job
--
-- ARGV    'ending', holder, started, result, 'move', 'move-leased' or 'because', and the arguments of that
--           holder   the name of who holds it; '' if that is not known
--           started  when it was delivered, in ms; '' if that is not known
-- Keys    as that
-- Answer  as that
OPERATIONS['ending'] = function(i)
  sum.holder, sum.started, sum.result = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local last = OPERATIONS[ARGV[i + 3]](i + 4)
  sum.holder, sum.started, sum.result = nil, nil, nil
  return last
end

-- What wait-ended answers first.
local NOTHING, RECORD, KEEPS_NONE, GOES_ON, PARKED = 0, 1, 2, 3, 4

-- say_state answers wait-ended for a job that has not ended, and returns whether it goes on.
local function say_state(j)
  locate(j, false)
  if SLOW.keep_of(j) == 0 then
    answer(KEEPS_NONE)
    return false
  end
  if j.state == 'buried' then
    local f = metadata_of(j)
    answer(PARKED)
    answer_text(j.tube)
    answer(f and f.parked or 0)
    answer_text(f and f.reason or '')
    return false
  end
  answer(GOES_ON)
  answer_text(j.state == 'pending' and 'buried' or j.state)
  return true
end

-- wait-ended: returns what has become of a job
--
-- ARGV    'wait-ended', id, wait
--           wait  1 if this instance is to be told when that changes
-- Keys    reads ended-ids and ended:SEQ, and as job-stats; writes ended-waits
-- Answer  NOTHING if there is neither the job nor a record; RECORD, and what E.read returns; KEEPS_NONE if there will be none; GOES_ON and
--         the state; or PARKED, the tube, why it is parked, a tube.Parked, and the reason of its last failure
OPERATIONS['wait-ended'] = function(i)
  local j, id = load(ARGV[i]), sub(ARGV[i], #PREFIX + 1)
  sum.ended().write()
  if j and say_state(j) then
    if ARGV[i + 1] == '1' then sum.ended().await(id) end
    return i + 2
  end
  if not j then
    local head, more, later, record = sum.ended().read(id)
    answer(head and RECORD or NOTHING)
    if head then
      answer_text(head)
      answer(more)
      answer(later)
      answer_text(record)
    end
  end
  if ARGV[i + 1] == '1' then sum.ended().forget_wait(id) end
  return i + 2
end

-- list-ended: returns records of ended jobs, the newest first
--
-- ARGV    'list-ended', of, name, limit, most, before
--           of, name     'of' and a tube, or 'in' and a batch
--           limit, most  about how many records and bytes are enough
--           before       only those whose seq is less; '' for the newest
-- Keys    reads ended-of:TUBE or ended-in:BATCH, and ended:SEQ
-- Answer  the name of the last chunk that was looked at if there are more, else ''; the time of Redis; how many chunks, and each: it can have records
--         that are not older than `before`, and whose time is over
OPERATIONS['list-ended'] = function(i)
  sum.ended().write()
  local set = PREFIX .. 'ended-' .. ARGV[i] .. ':' .. ARGV[i + 1]
  local found, last = sum.ended().list(set, tonumber(ARGV[i + 4]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]))
  answer_text(last or '')
  answer(NOW)
  SLOW.answer_names(found)
  return i + 5
end
