-- Moves of jobs to another tube. Small ones become new jobs in the call, if that tube is in
-- this partition. The others become pending, like dead letters, see ../../movejobs.go: then the
-- hash pending has 'TUBE STATE SCORE KEY', where SCORE is that in their queue.

-- leave_queue removes the first n jobs of a member from a queue of a tube.
local function leave_queue(tube, state, member, score, n)
  local queue, lone = PREFIX .. state .. ':' .. tube, false
  if call('ZREM', queue, member) == 0 and state == 'ready' and limited then
    queue = PREFIX .. 'lone-ready:' .. tube
    lone = call('ZREM', queue, member) == 1
    if not lone then call('ZREM', PREFIX .. 'lane-ready:' .. tube, member) end
  end
  if state ~= 'ready' then
    sum[state] = sum[state] - n
    return
  end
  if tonumber(score) < URGENT_BELOW then sum.urgent = sum.urgent - n end
  if #member == KEY_LENGTH then return end
  local size, terms = string.match(member, '^;(%d+);(.*)', KEY_LENGTH + 1)
  add_joined(tube, score, 1 - size, lone)
  if tonumber(size) > n then
    call('ZADD', queue, score, range_of(key_of(id_of(member) + n * partitions), size - n, terms))
    add_joined(tube, score, size - n - 1, lone)
  end
end

-- count_again makes the failures and deliveries of a job count from zero.
local function count_again(j, f)
  f.failures_before, f.deliveries_before = (j.releases + j.timeouts) % 4294967296, j.reserves
end

-- start_again does that with a job that has failed for good.
local function start_again(j, f)
  f.parked = 0
  count_again(j, f)
end

-- leave_home makes a job that leaves the tube where it was exhausted, and to which it has come back, forget
-- that it was a dead letter. It returns its metadata block without the part that changes.
local function leave_home(j, f, block)
  if f.from_tube == '' or f.from_tube ~= j.tube then return block end
  local n = f.more_at - f.from_at
  block = string.char(f.flags - HAS_FROM) .. sub(block, 2, f.from_at) .. sub(block, f.more_at + 1)
  f.from_tube, f.from_id, f.length = '', 0, f.length - n
  for _, place in ipairs({ 'more_at', 'rules_end', 'expires_at', 'more_end' }) do
    if f[place] then f[place] = f[place] - n end
  end
  return block
end

-- moved_metadata returns the metadata block that a job gets in another tube, whose record is
-- raw: '' if it needs none. Its counters begin at zero there; the metadata has their former
-- values, unless it starts again, or is a dead letter that comes home. The job `new` gets the key, if it is free there. Here the key
-- becomes a tombstone as if j had been deleted.
local function moved_metadata(j, raw, to, new, again)
  local f = j.has_metadata and unpack_metadata(raw)
  local block = '\0\0' -- the part that does not change
  if f then
    block = sub(raw, #raw - f.length - 1, #raw - CHANGING)
    j.metadata = f
    SLOW.forget_metadata(j)
    if f.reports then SLOW.hand_over_reports(j, new, to) end
    block = leave_home(j, f, block)
    SLOW.add_expiry(new, f)
    if f.key ~= '' then
      f.void = SLOW.by_key(to, f.key) ~= nil
      if not f.void then SLOW.give_key(to, f.key, new) end
    end
  else
    f = { parked = 0, failures_before = 0, deliveries_before = 0, lease = 0, length = CHANGING }
  end
  if again then start_again(j, f) elseif f.from_tube == to then count_again(j, f) end
  f.failures_before = (f.failures_before - j.releases - j.timeouts) % 4294967296
  f.deliveries_before = (f.deliveries_before - j.reserves) % 4294967296
  if not j.has_metadata and f.failures_before + f.deliveries_before == 0 then return '' end
  return block .. pack_changing(f)
end

-- copy_to creates the job `new` from a job, which has left its place and whose record is raw, in another tube, and
-- returns the size of its body and its group, false if it has none. again says that its failures and deliveries count
-- from zero.
local function copy_to(j, raw, state, to, new, again)
  local size = #raw - NAME_AT + 1 - #j.tube
  if j.has_metadata then size = size - unpack_metadata(raw).length - 2 end
  j.how, j.to_tube, j.to_id = 'moved', to, tonumber(sub(new, #PREFIX + 1))
  keep(j)
  local body, block = sub(raw, NAME_AT + #j.tube, NAME_AT - 1 + #j.tube + size), moved_metadata(j, raw, to, new, again)
  local batches = SLOW.job_batches_of(j)
  if batches then batches.moved(j, state, to, new) end
  j.letter = block == '' and LETTER[state] or string.lower(LETTER[state])
  for _, counter in ipairs(COUNTERS) do j[counter] = 0 end
  j.name_length = #to
  call('SET', new, pack_header(j) .. to .. body .. block)
  return size, group_of(j) or false
end

-- enter_lanes puts new ready jobs of a tube into its lanes, and those without groups into its queue.
local function enter_lanes(to, jobs, scores, groups)
  for k, key in ipairs(jobs) do
    if groups[k] then
      SLOW.groups().enter_ready({ tube = to, key = key, pri = tonumber(scores[k]) }, groups[k])
    else
      SLOW.groups().plain_ready(to)
      call('ZADD', READY .. to, scores[k], key)
    end
  end
end

-- enter_moved puts new jobs of a tube into the queue of a state. scores are those that they had
-- where they come from, groups those that they have, or false.
local function enter_moved(to, state, jobs, scores, groups)
  local n, entries, any = #jobs, {}, limited ~= nil
  local burials = state == 'buried' and count_up(COUNTS, 'burials', n) - n
  for k, key in ipairs(jobs) do
    local score = burials and format('%.0f', burials + k) or scores[k]
    entries[2 * k - 1], entries[2 * k] = score, key
    if state == 'ready' and tonumber(score) < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
    any = any or groups[k]
    if groups[k] and state ~= 'ready' then SLOW.groups().entered({ tube = to, key = key, state = state }, groups[k]) end
  end
  if state == 'ready' and any then
    enter_lanes(to, jobs, scores, groups)
  else
    add_all(PREFIX .. state .. ':' .. to, entries)
  end
  if state == 'ready' then
    wakeups[to] = (wakeups[to] or 0) + n
    return
  end
  sum[state] = sum[state] + n
  if state == 'buried' then return end
  local timer, first = call('ZSCORE', PREFIX .. 'timers', 'd:' .. to), tonumber(scores[1])
  if scores[1] == HELD_SCORE then return end
  if not timer or tonumber(timer) > first then call('ZADD', PREFIX .. 'timers', scores[1], 'd:' .. to) end
  note_due(first)
end
SLOW.enter_moved = enter_moved

-- replace ends a move of n jobs with bodies of that size in all, whose copies exist: it deletes
-- the jobs, and counts both.
local function replace(tube, to, keys, size)
  local n = #keys
  for _, key in ipairs(keys) do lengths[key] = nil end
  call('DEL', unpack(keys))
  sum.deleted, deletes[tube], bytes[tube] = sum.deleted + n, (deletes[tube] or 0) + n, (bytes[tube] or 0) - size
  totals[to], bytes[to] = (totals[to] or 0) + n, (bytes[to] or 0) + size
  SLOW.note('deletes', tube, n)
  SLOW.note('puts', to, n)
end

-- move_here creates new jobs from jobs, which are in no queue any more, in a tube of this
-- partition. Their records are small.
local function move_here(tube, state, to, keys, scores)
  local jobs, groups, size, one = {}, {}, 0, 0
  for k, key in ipairs(keys) do
    jobs[k] = key_of((first_number + sum.puts) * partitions + partition)
    sum.puts = sum.puts + 1
    local raw = call('GET', key)
    local j = job_from(key, raw)
    j.state = state
    left(j)
    one, groups[k] = copy_to(j, raw, state, to, jobs[k])
    size = size + one
  end
  replace(tube, to, keys, size)
  enter_moved(to, state, jobs, scores, groups)
end

-- set_move_pending makes a job, which is in no queue any more, pending for a tube, where it will be
-- in a state. change, unless it is nil, changes its metadata.
local function set_move_pending(j, state, to, score, change)
  local f = SLOW.change_metadata(j)
  call('HSET', PREFIX .. 'pending', sub(j.key, #PREFIX + 1), table.concat({ to, state, score, f.key }, ' '))
  SLOW.forget_metadata(j)
  if f.key ~= '' then
    f.key, f.void = '', true
  end
  if change then change(j, f) end
  local batches = SLOW.job_batches_of(j)
  if batches then batches.sent(j, state) end
  SLOW.save_metadata(j)
  j.state = 'buried'
  save(j)
  count_up(PREFIX .. 'tube:' .. j.tube, 'pending', 1)
  sum.buried = sum.buried + 1
  note_due(NOW)
end

-- set_all_pending makes jobs pending. Their records are in the reply.
local function set_all_pending(state, to, keys, scores)
  for k, key in ipairs(keys) do
    local j = load(key)
    j.state = state
    left(j)
    set_move_pending(j, state, to, scores[k])
    taken[#taken + 1] = key
    add_record(key)
  end
end

-- first_alike removes the first jobs from a queue, at most limit: as many as can all be moved
-- here, or as many as cannot, depending on the first one; of the latter as many as the reply
-- can return. It returns their keys and scores, and whether they can be moved here. Jobs
-- without a record are dropped.
local function first_alike(tube, state, here, limit)
  local members = queue_behind(tube, state, { score = '', key = '' }, limit)
  local keys, scores, sort, reply, more, at = {}, {}, nil, carried, true, 1
  while members[at] and more do
    local n = 0
    for _, key in ipairs(keys_of(members[at], partitions)) do
      local size = length_of(key)
      local small = here and size < LARGE
      more = #keys < limit and (size == 0 or sort == nil or sort == small) and (small or #keys == 0 or reply + size <= BUDGET)
      if not more then break end
      n = n + 1
      if size > 0 then
        sort, reply = small, reply + size + MAX_GROWTH
        keys[#keys + 1], scores[#scores + 1] = key, members[at + 1]
      end
    end
    if n > 0 then leave_queue(tube, state, members[at], members[at + 1], n) end
    at = at + 2
  end
  return keys, scores, sort
end

-- move-jobs: moves the first jobs of a tube in a state to another tube, or makes them pending
--
-- ARGV    'move-jobs', from, state, to, known, here, limit
--           state  'ready', 'delayed' or 'buried'
--           known  1 if the tube `to` certainly exists
--           here   1 if it is in this partition: then the call has reserved limit numbers for
--                  them, like puts
--           limit  how many jobs at most
-- Keys    takes members from ready:, delayed: or buried:FROM; writes the records, keys:FROM and
--         key:FROM KEY; with here ready:, delayed: or buried:TO, timers, keys:, key: and tube:
--         of TO, else pending; writes counts; reads policies
-- Answer  how many jobs there were in the state; how many became jobs, whose numbers follow from
--         the next one of a put; how many are pending, which are in the reply's ids and records,
--         and for each its state, score and key, as in pending
OPERATIONS['move-jobs'] = function(i)
  local tube, state, to, here, limit = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4] == '1', tonumber(ARGV[i + 5])
  answer(call('ZCARD', PREFIX .. state .. ':' .. tube) + (state == 'ready' and joined_in(tube) + ready_in_groups(tube) or 0))
  local before, keys, scores, moves = sum.puts, {}, {}, nil
  if limit > 0 then keys, scores, moves = first_alike(tube, state, here, limit) end
  if moves then
    move_here(tube, state, to, keys, scores)
    if ARGV[i + 3] ~= '1' then SLOW.put_in(to) end
    SLOW.gone_from(tube)
  elseif keys[1] then
    set_all_pending(state, to, keys, scores)
  end
  sum.changed = sum.changed or keys[1] ~= nil
  if here then sum.unput = sum.unput + limit - (sum.puts - before) end
  answer(moves and #keys or 0)
  answer(moves and 0 or #keys)
  if not moves then
    for _, key in ipairs(keys) do
      answer_text(string.match(call('HGET', PREFIX .. 'pending', sub(key, #PREFIX + 1)), ' (.*)'))
    end
  end
  return i + 6
end

-- move_alone moves a job, which has left its place, to another tube, where it has a state and a score. again says that
-- its failures and deliveries count from zero.
local function move_alone(j, to, state, score, again)
  if partition_of(to) ~= partition or length_of(j.key) >= LARGE then
    set_move_pending(j, state, to, score, again and start_again)
    return
  end
  local new = SLOW.more_key()
  local size, group = copy_to(j, call('GET', j.key), state, to, new, again)
  replace(j.tube, to, { j.key }, size)
  enter_moved(to, state, { new }, { score }, { group })
  SLOW.put_in(to)
  SLOW.gone_from(j.tube)
end

-- find_waiting returns a job that is ready, delayed or buried, nil if it is not.
local function find_waiting(id)
  local j = load(id)
  if j then locate(j, false) end
  return j and (j.state == 'ready' or j.state == 'delayed' or j.state == 'buried') and j or nil
end

-- replay: sends a dead letter back to where it was exhausted, or kicks a buried job
--
-- ARGV    'replay', id
-- Keys    as move-jobs of one job, or as move with kick-job
-- Answer  1, or 0 if it is no such job
OPERATIONS['replay'] = function(i)
  local j = find_waiting(ARGV[i])
  local f = j and j.has_metadata and read_metadata(j.key)
  local home = f and f.from_tube ~= j.tube and f.from_tube or ''
  if home ~= '' then
    leave_place(j)
    if SLOW.has_reports(j) then SLOW.report(j, { progress = '', checkpoint = not sum.keeps_checkpoint and '' or nil }) end
    move_alone(j, home, 'ready', format('%.0f', j.pri), true)
  elseif j and j.state == 'buried' then
    leave_place(j)
    follow(j, 'kick-job buried')
  else
    answer(0)
    return i + 1
  end
  sum.changed = true
  answer(1)
  return i + 1
end

-- move-job: moves a job that is not reserved to another tube, or makes it pending
--
-- ARGV    'move-job', id, to
-- Keys    as move-jobs of one job
-- Answer  1, or 0 if it is no such job, or in that tube
OPERATIONS['move-job'] = function(i)
  local j, to = find_waiting(ARGV[i]), ARGV[i + 1]
  local moves = j and j.tube ~= to
  if moves then
    local state = j.state
    local score = state == 'ready' and format('%.0f', j.pri) or call('ZSCORE', PREFIX .. state .. ':' .. j.tube, j.key)
    leave_place(j)
    move_alone(j, to, state, score, false)
    sum.changed = true
  end
  answer(moves and 1 or 0)
  return i + 2
end
