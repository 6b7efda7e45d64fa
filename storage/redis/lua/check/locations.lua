-- Where a job is, for the checks of jobs and of members, and how it is corrected: it is removed
-- from all places and put where its record says. A reserved job becomes ready. A delayed one
-- that is nowhere becomes due, unless it waits for a batch.

-- is_record returns whether a text is long enough to be a record.
local function is_record(raw) return #raw >= NAME_AT - 1 end

-- queue_of returns the key, after the prefix, of the queue in which a job should be; nil if its
-- record is broken.
local function queue_of(j)
  local state = STATE[j.letter]
  if state == 'ready' and j.group ~= '' then state = lone_id(j.tube, j.group) == id_text(j.key) and 'lone-ready' or 'lane-ready' end
  return state and state .. ':' .. j.tube
end

-- job_of reads the header and the group of a job from its record.
local function job_of(key, raw)
  local j = read_header(raw)
  j.key = key
  read_group(key, j)
  return j
end

-- queues_with returns which queues of its tube have a job as a single member, and the score in
-- the last of them.
local function queues_with(key, tube)
  local found, score = {}, nil
  work = work + 4
  for _, queue in ipairs({ 'ready:', 'lane-ready:', 'lone-ready:', 'delayed:', 'buried:' }) do
    local at = call('ZSCORE', PREFIX .. queue .. tube, key)
    if at then found[#found + 1], score = queue .. tube, at end
  end
  return found, score
end

-- is_in_place returns whether a job is in one queue only, the right one. Then ranges and
-- reserved jobs, which are expensive to search, are not searched for it: their own check finds
-- it.
local function is_in_place(j, found)
  return #found == 1 and found[1] == queue_of(j)
end

-- all_holders returns the instances that have reserved jobs; the value is true for those with
-- lease sets.
local holders
local function all_holders()
  if holders then return holders end
  holders = {}
  for _, inst in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do
    if call('EXISTS', PREFIX .. 'reserved:' .. inst) == 1 then holders[inst] = false end
    if call('EXISTS', PREFIX .. 'groups:' .. inst) == 1 then holders[inst] = true end
    work = work + 2
  end
  return holders
end

-- add_reserved adds the instances that have reserved a job to its places.
local function add_reserved(places, key)
  for inst, has_sets in pairs(all_holders()) do
    local at = call('ZSCORE', PREFIX .. 'reserved:' .. inst, key)
    if at then places.keys[#places.keys + 1], places.score = 'reserved:' .. inst, at end
    local set = has_sets and range_by_bytes(PREFIX .. 'groups:' .. inst, key, STEP)
    if set then
      places.keys[#places.keys + 1] = 'reserved:' .. inst
      places.set, places.set_of = set, inst
    end
    work = work + 2
  end
end

-- add_other_places adds the leases and the pending jobs to the places of a job.
local function add_other_places(places, key)
  local at = call('ZSCORE', PREFIX .. 'leases', key)
  if at then places.keys[#places.keys + 1], places.score = 'leases', at end
  if call('HEXISTS', PREFIX .. 'pending', id_text(key)) == 1 then places.keys[#places.keys + 1] = 'pending' end
  work = work + 2
end

-- places_of returns where a job is, a table:
--   keys         of the sorted sets, after the prefix
--   score        in the last of them in which it is a single member
--   range, queue the range that has it, and the queue of that
--   set, set_of  the lease set that has it, and its instance
local function places_of(key, j)
  local found, score = queues_with(key, j.tube)
  local ready = (j.group ~= '' and 'lone-ready:' or 'ready:') .. j.tube
  local single, places = found[1] == ready, { keys = found, score = score }
  add_reserved(places, key)
  add_other_places(places, key)
  places.range = range_by_bytes(PREFIX .. ready, key, STEP)
  work = work + 1
  if not places.range and not single then
    places.range = range_by_priority(PREFIX .. ready, key, j.pri, STEP)
    work = work + 20
  end
  if places.range then found[#found + 1], places.queue = ready, ready end
  return places
end

-- is_right returns whether a job is in one place only, which agrees with its record.
local function is_right(j, keys)
  if is_in_place(j, keys) then return true end
  if #keys ~= 1 then return false end
  if keys[1] == 'pending' then return STATE[j.letter] == 'buried' end
  return STATE[j.letter] == 'ready' and (keys[1] == 'leases' or string.sub(keys[1], 1, 9) == 'reserved:')
end

-- size_of returns how many jobs a range or a lease set has; 0 for nil.
local function size_of(member)
  return member and tonumber(string.match(member, '^;(%d+)', KEY_LENGTH + 1)) or 0
end

local function list_tube(tube)
  if not call('ZSCORE', PREFIX .. 'tubes', tube) then
    call('ZADD', PREFIX .. 'tubes', call('HINCRBY', PREFIX .. 'counts', 'opened', '1'), tube)
  end
end

-- enter_queue adds a job to its queue. score is the one that it had if it was in one place.
local function enter_queue(key, j, score)
  local queue, state = PREFIX .. queue_of(j), STATE[j.letter]
  if state == 'ready' then
    call('ZADD', queue, string.format('%.0f', j.pri), key)
  elseif state == 'buried' then
    call('ZADD', queue, call('HINCRBY', PREFIX .. 'counts', 'burials', '1'), key)
  else
    if j.after then score = HELD_SCORE end
    call('ZADD', queue, score or string.format('%.0f', call('TIME')[1] * 1000), key)
    call('ZADD', PREFIX .. 'timers', '0', 'd:' .. j.tube)
  end
end

local function put_right(key, j, places)
  work = work + 10 + 2 * size_of(places.set) + size_of(places.range)
  if places.set then split_lease_set(PREFIX, places.set_of, places.set, STEP) end
  if places.range then dissolve_range(PREFIX .. places.queue, places.range, STEP, { [key] = true }) end
  for _, queue in ipairs(places.keys) do
    if queue == 'pending' then
      call('HDEL', PREFIX .. queue, id_text(key))
      call('HINCRBY', PREFIX .. 'tube:' .. j.tube, 'pending', '-1')
    else
      call('ZREM', PREFIX .. queue, key)
    end
  end
  enter_queue(key, j, #places.keys == 1 and places.score or nil)
  if j.group ~= '' then check_lane(key, j, queue_of(j)) end
  list_tube(j.tube)
end

-- report_misplaced reports that a job is in the wrong places, and with repair corrects it.
local function report_misplaced(key, j, places)
  local where = #places.keys > 0 and 'in ' .. table.concat(places.keys, ', ') or 'nowhere'
  note('job ' .. id_text(key) .. ': by its record it should be in ' .. queue_of(j) .. ', and it is ' .. where)
  if REPAIR then put_right(key, j, places) end
end

