-- Flushes: all jobs of a tube in some states are removed, in parts. Jobs with larger ids than
-- last, which were put since the first part, are kept.

-- remove_records removes the records of jobs of a tube, which are in no queue any more and were in
-- a state, and returns how many there were.
local function remove_records(tube, state, keys)
  local size, n, plain = 0, 0, 0
  if not keys[1] then return 0 end
  for _, key in ipairs(keys) do
    local letter = call('GETRANGE', key, '0', '0')
    if letter >= 'a' then
      local j = load(key)
      j.state = state
      left(j)
      keep(j)
      SLOW.ended_batch(j)
      size = size + size_of(j)
      SLOW.forget_metadata(j)
      if SLOW.has_reports(j) then SLOW.forget_reports(j) end
    elseif letter ~= '' then
      if sum.keeping then SLOW.keep_key(key, state) end
      size, plain = size + call('STRLEN', key) - #tube - NAME_AT + 1, plain + 1
    end
    lengths[key] = nil
  end
  if limited and state == 'reserved' then SLOW.groups().freed(tube, plain) end
  n = call('DEL', unpack(keys))
  bytes[tube], deletes[tube] = (bytes[tube] or 0) - size, (deletes[tube] or 0) + n
  sum.deleted, sum.changed = sum.deleted + n, true
  SLOW.note('deletes', tube, n)
  return n
end

-- count_left counts that n jobs of a tube have left a queue. They were a member of it, with that
-- score.
local function count_left(tube, state, member, score, n)
  if not string.find(state, 'ready$') then
    sum[state] = sum[state] - n
    return
  end
  if #member > KEY_LENGTH then add_joined(tube, score, 1 - n, state == 'lone-ready') end
  if tonumber(score) < URGENT_BELOW then sum.urgent = sum.urgent - n end
end

-- flush_queue removes up to about limit jobs of a queue, from the position w on, which advances
-- past the jobs that are kept. It returns how many it has removed, and whether those were the
-- last.
local function flush_queue(tube, state, w, last, limit)
  local queue, gone, keys, at = PREFIX .. state .. ':' .. tube, {}, {}, 1
  local most = w.key == '' and limit or 4 * limit -- of those that are kept
  local members = members_behind(queue, w, most)
  while members[at] and #keys < limit do
    local member, score = members[at], members[at + 1]
    if id_of(member) > last then
      w.score, w.key = score, last_of(member)
    else
      local jobs = keys_of(member, partitions)
      if #keys > 0 and #keys + #jobs > limit then break end
      for _, key in ipairs(jobs) do keys[#keys + 1] = key end
      gone[#gone + 1] = member
      count_left(tube, state, member, score, #jobs)
    end
    at = at + 2
  end
  if gone[1] then call('ZREM', queue, unpack(gone)) end
  local ended = not members[at] and #members < 2 * most
  return remove_records(tube, string.match(state, 'ready$') or state, keys), ended
end

-- remove_from removes jobs with a group from a tube, which are all in one state.
function SLOW.remove_from(tube, state, keys)
  if not keys[1] then return 0 end
  if state == 'ready' then
    sum.urgent = sum.urgent - SLOW.groups().count_urgent(tube, keys)
  else
    call('ZREM', PREFIX .. state .. ':' .. tube, unpack(keys))
    sum[state] = sum[state] - #keys
  end
  return remove_records(tube, state, keys)
end

-- last_number returns the id of the last job that was put.
local function last_number() return (call('HGET', COUNTS, 'ids') or 0) * partitions + partition end
SLOW.last_number = last_number

-- flush: removes some jobs of a tube that are ready, delayed or buried
--
-- ARGV    'flush', tube, states, limit, last, score, key
--           states      of the jobs, in this order, each followed by a space; lane-ready and lone-ready
--                       stand for the ready ones with groups
--           limit       about how many jobs at most
--           last        the largest id of a job to be removed; '' in the first part
--           score, key  position in the queue of the first state after which to continue
-- Keys    takes members from ready:, delayed: and buried:TUBE; deletes the records; writes
--         keys:TUBE, key:TUBE KEY, tube:TUBE, counts; reads policies
-- Answer  how many were removed, and for the next part states ('' if nothing is left), last,
--         score and key
OPERATIONS['flush'] = function(i)
  local tube, states, left = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local last, w, count = tonumber(ARGV[i + 3]), { score = ARGV[i + 4], key = ARGV[i + 5] }, 0
  repeat
    local state, n, ended = string.match(states, '^[%l-]+'), 0, true
    if limited or not string.find(state, '-ready') then n, ended = flush_queue(tube, state, w, last or math.huge, left) end
    count, left = count + n, left - n
    if ended then states, w.score, w.key = string.match(states, ' (.*)'), '', '' end
  until states == '' or left <= 0 or not ended
  if count > 0 then SLOW.gone_from(tube) end
  answer(count)
  answer_text(states)
  answer(last or last_number())
  answer_text(w.score)
  answer_text(w.key)
  return i + 6
end

-- take_reserved removes a member with these jobs from what a holder has reserved. The instance
-- is told of it, because it assumes that one of its connections has the job. This instance gets
-- it in own, and in flushed:INST as well, for its calls that are on their way.
local function take_reserved(holder, member, jobs, own)
  call('ZREM', holder_queue(holder), member)
  if holder == '' then return end
  if #member > KEY_LENGTH then
    call('ZREM', PREFIX .. 'groups:' .. holder, member)
    sum.in_sets = sum.in_sets - jobs
  end
  call('RPUSH', PREFIX .. 'flushed:' .. holder, member)
  if holder == INSTANCE then own[#own + 1] = member end
end

-- flush-reserved: removes some reserved jobs of a tube, regardless of their holders
--
-- ARGV    'flush-reserved', tube, limit, last, holder, score, key
--           limit, last         as flush
--           holder, score, key  where to continue; '' in the first part
-- Keys    takes members from reserved: and groups: of all instances, and from leases; writes
--         flushed: of these instances; else as flush
-- Answer  how many were removed; 1 if there is more to do, else 0; for the next part last, holder,
--         score and key; how many reservations of this instance were flushed, jobs and lease
--         sets, and their names
OPERATIONS['flush-reserved'] = function(i)
  local tube, last = ARGV[i], tonumber(ARGV[i + 2])
  local w = { holder = ARGV[i + 3], score = ARGV[i + 4], key = ARGV[i + 5], had = 0, begin = { score = '', key = '' } }
  local found, count, own = next_reserved(tube, w, tonumber(ARGV[i + 1]), math.huge), 0, {}
  for _, entry in ipairs(found) do
    local member, holder, keys = entry[1], entry[3], entry[4]
    if id_of(member) <= (last or math.huge) then
      take_reserved(holder, member, #keys, own)
      count = count + remove_records(tube, 'reserved', keys)
    end
  end
  if count > 0 then SLOW.gone_from(tube) end
  answer(count)
  answer(w.holder and 1 or 0)
  answer(last or last_number())
  answer_text(w.holder or '')
  answer_text(w.score)
  answer_text(w.key)
  SLOW.answer_names(own)
  return i + 6
end
