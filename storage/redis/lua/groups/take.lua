-- Takes from tubes with limits or jobs with groups.
--
-- The problem: which job is next depends on the priority, on how many jobs of each group are reserved, on turns, and on limits
-- that change with time. A tube can have a million groups, and a take must look at few of them.
--
-- So there are three queues, each in its own right order: ready:TUBE with the jobs without a group, lone-ready:TUBE with the
-- lone ones (lone.lua), and eligible:TUBE with an entry for each other group of which a job may start (lanes.lua). The next
-- job is the least of their three heads, in the order of members of eligible:TUBE; next_offer compares them. Jobs without a
-- group take part in it as one group would.
--
-- The invariant: before a take, each lane has the entry that it should have, or is dirty and updated first. A start changes the
-- order of its own lane only, so this take keeps that lane in `again`, sorted beside the entries that it has read, instead
-- of writing and reading the index between two jobs. finish writes what was taken, all together.
--
-- Two things make entries wrong without a change of their lane: a policy that was set (rescans, see due.lua), and strict
-- groups. Only then is an entry computed anew before it is believed (is_true); one that is wrong is put right, up to MOST_WRONG.
--
-- The cost: four entries are read at first, then twice as many; a take of n jobs from n groups is a few commands in total, and
-- one for each job where a lane has more jobs (read_first).
--
-- An offer is the next job of a queue or of the tube:
--   key      of the job
--   member   as in eligible:TUBE, whose order is that of offers; of the plain lane, from where its
--            load begins, only if it is needed
--   lane     nil for the plain lane, and for a lone job
--   first    of a lane: FIRST of the job
--   lone     true for a lone job

-- plain_offer returns the offer of the plain lane; nil if it has no ready job. It is read once, until
-- that job is taken.
local function plain_offer(t, q)
  if q.plain_head == nil then
    local head = call('ZRANGE', READY .. t.name, '0', '0', 'WITHSCORES')
    q.plain_head = head[1] and { member = format('%010d', head[2]), key = sub(head[1], 1, KEY_LENGTH) } or false
  end
  return q.plain_head or nil
end

-- plain_member returns the load and turn of the plain lane, as in a member. q counts its reserved
-- jobs.
local function plain_member(t, q)
  read_turns(t)
  q.plain = q.plain or reserved_in(t) - call('ZCARD', t.reserved) - lone_reserved(t)
  return format('%012d%s', math.max(q.plain, 0) * 1000, t.plain_turn)
end

-- read_entries reads the next entries of the index: few at first, as lone jobs can come before them.
local function read_entries(t, q)
  local from, n = q.read, q.want
  local found, groups = call('ZRANGE', t.eligible, format('%d', from), format('%d', from + n - 1)), {}
  for k, member in ipairs(found) do
    groups[k] = sub(member, ENTRY_LENGTH + 1)
    q.entries[from + k] = { member = member, group = groups[k], lane = false, first = false, key = false }
  end
  read_lanes(t, groups)
  q.read, q.all, q.want = from + #found, #found < n, math.min(2 * n, 100)
end

-- offer_again adds an offer of a lane that has started a job, or whose entry was wrong, to those that come
-- later.
local function offer_again(t, q, lane)
  local member, first = next_of(t, lane)
  lane.fresh = member or false
  if not member then return end
  local offer, at = { member = member, lane = lane, first = first, key = PREFIX .. sub(first, 11) }, #q.again + 1
  while at > 1 and member < q.again[at - 1].member do at = at - 1 end
  table.insert(q.again, at, offer)
end

-- is_true completes an entry that was read if it says what is true. Its order is only in doubt while
-- lanes are still looked at again after a policy has changed, and in strict groups.
local function is_true(t, entry, lane)
  if t.strict or t.rescans == nil and is_rescanned(t) or t.rescans then
    local member, first = next_of(t, lane)
    if member ~= entry.member then return false end
    entry.first = first
  else
    entry.first = has_ready(t, lane)
    if not entry.first or why_held(t, lane) ~= NOT_HELD then return false end
  end
  entry.lane, entry.key = lane, PREFIX .. sub(entry.first, 11)
  return true
end

-- MOST_WRONG is how many entries and lone jobs a take puts right at most, after a policy has changed. Then it finds
-- no more, until the timer of the tube has looked at all and wakes clients.
local MOST_WRONG = 250

-- first_entry returns the offer of the first entry, of those that were read, which is true. Others are
-- put right with the index.
local function first_entry(t, q)
  while true do
    if not q.entries[q.at] and not q.all then read_entries(t, q) end
    local entry = q.entries[q.at]
    if not entry or entry.lane then return entry end
    if t.rescans and q.wrong >= MOST_WRONG then return nil end
    local lane = lane_of(t, entry.group)
    if is_true(t, entry, lane) then return entry end
    q.at, q.wrong = q.at + 1, q.wrong + 1
    mark_dirty(t, lane)
    offer_again(t, q, lane)
  end
end

-- group_offer returns the first offer of a group, nil if there is none, and whether it is one of
-- again.
local function group_offer(t, q)
  local entry, later = first_entry(t, q), q.again[1]
  if later and (not entry or later.member < entry.member) then return later, true end
  return entry, false
end

-- lone_offer returns the offer of the lone jobs; nil if there is none. It is read once, until that job
-- is taken. If the policy of the tube has changed, so that jobs cannot be lone, it makes those ordinary
-- that come before the offers of groups, see rescan for the others.
local function lone_offer(t, q)
  while q.lone == nil do
    local head = call('ZRANGE', t.lone_ready, '0', '0', 'WITHSCORES')
    local key = head[1] and sub(head[1], 1, KEY_LENGTH)
    local member = key and format('%010d', head[2]) .. NO_LOAD .. sub(key, #PREFIX + 1) .. NO_SUB
    if not key then
      q.lone = false
    elseif is_simple(t) then
      q.lone = { member = member, key = key, lone = true }
    else
      local group = group_offer(t, q)
      if group and group.member < member or q.wrong >= MOST_WRONG then return nil end
      q.wrong = q.wrong + 1
      local lane = unpack_key(t, key)
      if lane then offer_again(t, q, lane) end
    end
  end
  return q.lone or nil
end

-- next_offer returns the offer of a tube whose limits allow a start; nil if there is none. The second
-- result says whether it is one of again; the third is the member of the one that comes after a lone
-- job, nil if there is none.
local function next_offer(t, q)
  local plain, lone, group, from_again = plain_offer(t, q), nil, nil, false
  if t.listed then
    lone = lone_offer(t, q)
    group, from_again = group_offer(t, q)
  end
  local best, behind = group, nil
  if lone and (not group or lone.member < group.member) then best, behind = lone, group and group.member end
  if not best or not plain then return plain or best, from_again, behind end
  local pri = sub(plain.member, 1, 10)
  plain.member = pri .. (pri == sub(best.member, 1, 10) and plain_member(t, q) or '')
  if plain.member < best.member then return plain end
  if not behind or plain.member < behind then behind = plain.member end
  return best, from_again, behind
end

local function new_queue()
  return { entries = {}, at = 1, again = {}, read = 0, wrong = 0, pending = 0, want = 4, got = 0, keys = {}, lanes = {}, ready = {}, reserved = {} }
end

-- group_of_job returns the group of a job by its key; nil if it has no record.
local function group_of_job(key)
  local j = SLOW.load(key)
  return j and SLOW.read_group(j) or nil
end

-- offer returns the next job of a tube, nil if none may start: its priority, its key, and its
-- group, nil if it has none.
function G.offer(t)
  update_index(t)
  if tube_held(t) ~= NOT_HELD then return nil end
  local offer = next_offer(t, new_queue())
  if not offer then return nil end
  return tonumber(sub(offer.member, 1, 10)), offer.key, offer.lane and offer.lane.group or offer.lone and group_of_job(offer.key)
end

-- peek returns the key of the next job of a tube, or if none may start that of the first ready one.
function G.peek(t)
  local _, key = G.offer(t)
  if key then return key end
  local first, pri = nil, nil
  for _, queue in ipairs({ READY .. t.name, t.ready, t.lone_ready }) do
    local head = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    local its_key, its_pri = sub(head[1] or '', 1, KEY_LENGTH), tonumber(head[2])
    if head[1] and (not first or its_pri < pri or its_pri == pri and its_key < first) then first, pri = its_key, its_pri end
  end
  return first
end

-- add_taken adds the record of a job to the reply, and returns whether there is one. raw is that, if
-- all records are small.
local function add_taken(key, raw)
  if largest >= LARGE then return SLOW.add_record(key) end
  if not raw then return false end
  records[#records + 1], carried = raw, carried + #raw
  return true
end

-- finish moves the jobs that were taken from groups, and adds their records to the reply. Those
-- without a record are dropped.
local function finish(t, q)
  if not q.keys[1] then return end
  local found, base, names = { names = {}, sizes = {}, ttrs = {}, cached = {}, keys = {} }, #records, {}
  local raw, n = largest < LARGE and call('MGET', unpack(q.keys)) or {}, 0
  for k, key in ipairs(q.keys) do
    if add_taken(key, raw[k]) then
      n = n + 1
      found.names[n], found.sizes[n], names[2 * n - 1], names[2 * n] = key, 1, '0', q.reserved[k]
    else
      q.lanes[k].reserved, q.lost = false, (q.lost or 0) + 1
    end
  end
  found.keys = found.names
  call('ZREM', t.ready, unpack(q.keys))
  call('ZREM', t.jobs, unpack(q.ready))
  if names[1] then add_all(t.reserved, names) end
  sum.urgent = sum.urgent - hold(found, base)
  sum.takes, sum.changed = sum.takes + #found.names, true
  q.keys, q.lanes, q.ready, q.reserved, t.unwritten = {}, {}, {}, {}, {}
end

-- start_job takes the job of an offer of a group.
local function start_job(t, q, offer, from_again)
  local lane, id, n = offer.lane, sub(offer.first, 11), #q.keys + 1
  if from_again then table.remove(q.again, 1) else q.at = q.at + 1 end
  q.keys[n], q.lanes[n] = offer.key, lane
  q.ready[n], q.reserved[n] = ready_name(lane.group, offer.first), reserved_name(lane.group, id)
  reaches(t, lane, (limits_of(t, lane)), 1)
  reserved_of(t, lane)
  if lane.first == offer.first and lane.single then
    lane.first, lane.single = false, false
  elseif lane.first == offer.first then
    read_first(t, lane, q.ready[n])
  end
  if t.rates then take_tokens(t, '', t.rates, 1) end
  note_start(t, lane, id)
  t.unwritten[lane] = (t.unwritten[lane] or 0) + 1
  offer_again(t, q, lane)
end

-- start_plain takes up to n jobs of the plain lane. It returns how many, and whether there may be
-- more that are cut.
local function start_plain(t, q, n)
  finish(t, q)
  q.plain_head = nil
  local got, _, cut = reserve_first(t.name, n, READY .. t.name)
  if got == 0 then return 0, cut end
  if t.rates then take_tokens(t, '', t.rates, got) end
  q.plain = q.plain and q.plain + got
  if t.listed and call('EXISTS', READY .. t.name) == 1 then t.plain_turn = next_turn(t) end
  return got, cut
end

-- lone_before returns how many of the first lone jobs, up to n, come before the offer with a member. The
-- first one does.
local SOME = 8 -- how many members are read together
local function lone_before(t, member, n)
  local pri, rest, count, from = tonumber(sub(member, 1, 10)), sub(member, 11), 0, 0
  local last = call('ZRANGE', t.lone_ready, '-1', '-1', 'WITHSCORES')
  if tonumber(last[2]) <= pri and sub(rest, 1, #NO_LOAD) > NO_LOAD then return n end
  repeat
    local heads = call('ZRANGE', t.lone_ready, format('%d', from), format('%d', from + SOME - 1), 'WITHSCORES')
    for k = 1, #heads, 2 do
      local head, its_pri = heads[k], tonumber(heads[k + 1])
      if its_pri > pri or its_pri == pri and NO_LOAD .. sub(head, #PREFIX + 1, KEY_LENGTH) .. NO_SUB > rest then return math.max(count, 1) end
      count = count + (string.match(head, '^;(%d+)', KEY_LENGTH + 1) or 1)
      if count >= n then return n end
    end
    from = from + SOME
  until #heads < 2 * SOME
  return count
end

-- start_lone takes up to n lone jobs, before the offer with a member. It returns what start_plain
-- returns.
local function start_lone(t, q, member, n)
  finish(t, q)
  q.lone = nil
  if member and n > 1 then n = lone_before(t, member, n) end
  local got, _, cut = reserve_first(t.name, n, t.lone_ready, true)
  if got > 0 and t.rates then take_tokens(t, '', t.rates, got) end
  return got, cut
end

-- fits_too returns whether the reply can return the record of one more job.
local function fits_too(q, key)
  largest = largest or tonumber(call('HGET', COUNTS, 'largest') or math.huge)
  if carried + q.pending + largest <= BUDGET then
    q.pending = q.pending + largest
    return true
  end
  local size = SLOW.length_of(key)
  q.pending = q.pending + size
  return carried + q.pending - size == 0 or carried + q.pending <= BUDGET
end

-- take reserves up to n jobs of a tube. It returns what reserve_first returns.
function G.take(t, n)
  if not reserve_first then define_take() end
  update_index(t)
  local held, most = tube_held(t)
  local q, cut = new_queue(), false
  most = held == NOT_HELD and math.min(n, most) or 0
  while q.got < most and not cut do
    local offer, from_again, behind = next_offer(t, q)
    if not offer then break end
    if offer.lane then
      cut = not fits_too(q, offer.key)
      if not cut then
        start_job(t, q, offer, from_again)
        q.got = q.got + 1
      end
    else
      local got
      if offer.lone then
        got, cut = start_lone(t, q, behind, most - q.got)
      else
        got, cut = start_plain(t, q, t.listed and 1 or most - q.got)
      end
      q.got, q.pending = q.got + got, 0
      if got == 0 and not cut then break end
    end
  end
  finish(t, q)
  update_index(t)
  return q.got - (q.lost or 0), false, cut
end
