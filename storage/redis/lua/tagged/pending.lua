-- Pending dead letters: jobs whose dead-letter tube is in another partition, or whose record is
-- large. deadletter.go describes the steps. The hash pending has by ID the target tube and the
-- key of the job: 'TUBE KEY'. Such a job is in no queue, and no other operation changes it.

-- set_pending makes a job, which is in no place and was parked, pending for a tube. Its key is
-- free from now on.
function SLOW.set_pending(j, tube)
  local f = metadata_of(j)
  SLOW.drop_expiry(j)
  call('HSET', PREFIX .. 'pending', sub(j.key, #PREFIX + 1), tube .. ' ' .. f.key)
  if f.key ~= '' then
    SLOW.forget_metadata(j)
    f.key, f.void = '', true
  end
  count_up(PREFIX .. 'tube:' .. j.tube, 'pending', 1)
  j.state, sum.buried = 'buried', sum.buried + 1
  SLOW.entered_batch(j)
  note_due(NOW)
end

-- clear_pending is called for a pending job that is about to be removed.
function SLOW.clear_pending(j)
  local batches = SLOW.job_batches_of(j)
  if batches then batches.left_pending(j) end
  call('HDEL', PREFIX .. 'pending', sub(j.key, #PREFIX + 1))
  count_up(PREFIX .. 'tube:' .. j.tube, 'pending', -1)
  sum.buried = sum.buried - 1
end

-- pending: returns some of the pending jobs
--
-- ARGV    'pending', cursor, limit
--           cursor  where to continue, as HSCAN returns it: '0' for the first ones
--           limit   about how many
-- Keys    reads pending and the records
-- Answer  the next cursor, '0' at the end; how many, and for each the tube, and the key or ''; they
--         are in the reply's ids and records. A part can be empty, because HSCAN returns early
--         where many were removed. What is too much for a reply is left out
OPERATIONS['pending'] = function(i)
  local part, limit, n = call('HSCAN', PREFIX .. 'pending', ARGV[i], 'COUNT', ARGV[i + 1]), tonumber(ARGV[i + 1]), 0
  local found = part[2]
  local said = {}
  for k = 1, #found, 2 do
    local key = PREFIX .. found[k]
    if call('EXISTS', key) == 0 then
      call('HDEL', PREFIX .. 'pending', found[k])
    elseif n < limit and fits(key) then
      n, said[#said + 1] = n + 1, found[k + 1]
      taken[#taken + 1] = key
      add_record(key)
    end
  end
  answer_text(part[1])
  answer(n)
  for _, text in ipairs(said) do
    local tube, key = string.match(text, '^(%S*) (.*)$')
    answer_text(tube)
    answer_text(key)
  end
  return i + 2
end

-- arrive: makes a job of a dead letter from any partition, unless that was done before
--
-- ARGV    'arrive', tube, known, letter, key, size, state, score, progress, checkpoint, record
--           known   1 if the tube certainly exists
--           letter  the unique name of the dead letter: 'PARTITION:ID'
--           key     '' if it has none
--           size    of the body, bytes
--           state   'ready', 'delayed' or 'buried'; score is that in its queue, see move.lua
--           progress, checkpoint  '' if it has none
--           record  of a job in that state, with the key in its metadata
-- Keys    writes the record, checkpoint:ID, progress:ID, dead:LETTER, ready:, delayed: or buried:TUBE, timers, keys:TUBE,
--         key:TUBE KEY, tube:TUBE, counts
-- Answer  1 if it has become a job now, whose number follows from the first one; else 0, and the id of that job, 0 if it is not known
local MARKED_FOR, STILL_MARKED_FOR = '2592000', '600' -- seconds: until and after departed
OPERATIONS['arrive'] = function(i)
  local tube, key, record, mark = ARGV[i], ARGV[i + 3], ARGV[i + 9], PREFIX .. 'dead:' .. ARGV[i + 2]
  if call('EXISTS', mark) == 1 then
    drop_put(record)
    answer(0)
    answer(tonumber(call('GET', mark)) or 0)
    return i + 10
  end
  local job = new_job(record)
  write_new_jobs()
  local j = load(job)
  if key ~= '' and by_key(tube, key) then
    change_metadata(j).void = true
    save_metadata(j)
  elseif key ~= '' then
    give_key(tube, key, job)
  end
  if j.has_metadata then SLOW.add_expiry(job, metadata_of(j)) end
  if has_reports(j) then SLOW.report(j, { progress = ARGV[i + 7], checkpoint = ARGV[i + 8] }) end
  if j.has_metadata and (j.metadata.batch or j.metadata.after) then SLOW.job_batches().arrived(j, ARGV[i + 5]) end
  call('SET', mark, sub(job, #PREFIX + 1), 'EX', MARKED_FOR)
  totals[tube], bytes[tube], sum.changed = (totals[tube] or 0) + 1, (bytes[tube] or 0) + ARGV[i + 4], true
  SLOW.note('puts', tube, 1)
  if ARGV[i + 1] ~= '1' then SLOW.put_in(tube) end
  SLOW.enter_moved(tube, ARGV[i + 5], { job }, { ARGV[i + 6] }, { j.has_metadata and SLOW.read_group(j) })
  answer(1)
  return i + 10
end

-- depart: removes a dead letter that has arrived from its source
--
-- ARGV    'depart', id, to
--           to  id of the job that it has become, 0 if that is not known
-- Keys    deletes the record; writes pending, tube:TUBE, counts, and the keys of ended jobs
-- Answer  1
OPERATIONS['depart'] = function(i)
  local j = load(ARGV[i])
  local where = j and call('HGET', PREFIX .. 'pending', sub(j.key, #PREFIX + 1))
  if where then
    SLOW.clear_pending(j)
    j.how = string.find(where, '^%S+ %l+ %d+ ') and 'moved' or 'dead'
    sum.changed, j.ends, j.to_tube, j.to_id = true, 'moved', string.match(where, '^%S+'), tonumber(ARGV[i + 1])
    delete(j)
  end
  answer(1)
  return i + 2
end

-- departed: lets the mark of a dead letter expire soon. Only instances that have read it before
-- its removal still need it
--
-- ARGV    'departed', letter
-- Keys    makes dead:LETTER expire soon
-- Answer  1
OPERATIONS['departed'] = function(i)
  call('SET', PREFIX .. 'dead:' .. ARGV[i], '', 'EX', STILL_MARKED_FOR)
  answer(1)
  return i + 1
end
