-- Checks which of these members of queues are not jobs that belong there. With repair they are
-- removed; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4…] members, two arguments for each: its queue, a key after the prefix, that is ready:TUBE,
--          lane-ready:TUBE, lone-ready:TUBE, delayed:TUBE, buried:TUBE, reserved:INST or leases, or '' for the queue of the
--          previous member; and the whole key of a job, a range or a lease set
--
-- Reply: how many of these members were checked, from the first one on, at least one; and a
-- text for each fault

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include data: metadata
--include shared/ranges.lua
--include check/lanes.lua
--include check/locations.lua

-- The queue of the members that are being checked: its key after the prefix, the part before
-- the ':', and the tube or instance.
local queue, kind, name

local function read(key)
  if string.sub(key, 1, #PREFIX) ~= PREFIX then return '' end
  return call('GETRANGE', key, '0', LONGEST_NAME)
end

-- is_elsewhere returns whether a job in a range, or a reserved one, is also a single member of
-- a queue, and of the right one, so that the check of jobs has not noticed it.
local function is_elsewhere(key, raw)
  if not is_record(raw) then return false end
  local j = job_of(key, raw)
  if kind ~= 'reserved' and STATE[j.letter] == 'ready' then return false end
  work = work + 1
  if not queue_of(j) or not call('ZSCORE', PREFIX .. queue_of(j), key) then return false end
  return is_in_place(j, (queues_with(key, j.tube)))
end

-- fault_of returns what is wrong with a job of the queue, which is a single member or together
-- with others; nil if nothing is. Jobs of lease sets can be deleted. If the job is also
-- elsewhere it is added to elsewhere.
local function fault_of(key, together, elsewhere)
  local raw = read(key)
  if raw == '' and kind == 'reserved' and together then return nil end
  if raw == '' then return 'there is no such job' end
  if kind ~= 'reserved' and (not is_record(raw) or read_header(raw).tube ~= name) then
    return 'the job is of another tube'
  end
  if together and call('ZSCORE', PREFIX .. queue, key) then return 'it is in a range and by itself' end
  if (together or kind == 'reserved') and is_elsewhere(key, raw) then elsewhere[#elsewhere + 1] = key end
  return nil
end

-- check_elsewhere checks whether a job is in several places.
local function check_elsewhere(key)
  local j = job_of(key, call('GETRANGE', key, '0', LONGEST_NAME))
  local places = places_of(key, j)
  if #places.keys >= 2 then report_misplaced(key, j, places) end
end

-- take_out removes a member from the queue, but keeps its jobs that are not in faults.
local function take_out(member, n, faults)
  work = work + 2 * n
  if kind == 'reserved' and n > 1 then
    split_lease_set(PREFIX, name, member, STEP) -- what was there twice is there once then
  elseif call('ZSCORE', PREFIX .. queue, member) then
    dissolve_range(PREFIX .. queue, member, STEP, faults)
  end
end

local function check_member(member)
  work = work + 1
  if not call('ZSCORE', PREFIX .. queue, member) then return end
  local keys = (kind == 'ready' or kind == 'lone-ready' or kind == 'reserved') and keys_of(member, STEP) or { member }
  local faults, elsewhere, together = {}, {}, #keys > 1
  work = work + (together and 2 or 1) * #keys
  for _, key in ipairs(keys) do
    faults[key] = fault_of(key, together, elsewhere)
    if faults[key] then note(queue .. ' has ' .. string.gsub(key, '^.*:', '') .. ': ' .. faults[key]) end
  end
  for _, key in ipairs(elsewhere) do check_elsewhere(key) end
  if next(faults) and REPAIR then take_out(member, #keys, faults) end
end

local done = 0
for k = 4, #ARGV, 2 do
  if done > 0 and exhausted() then break end
  if ARGV[k] ~= '' then
    queue = ARGV[k]
    kind, name = string.match(queue, '^([%l-]+):(.*)$')
    if queue == 'leases' then kind, name = 'reserved', '' end
  end
  check_member(ARGV[k + 1])
  done = done + 1
end
return { done, wrong }
