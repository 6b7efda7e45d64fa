-- Checks which of these jobs are not where their records say, or in two places. With repair
-- they are corrected, see locations.lua; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4…] ids, whole keys
--
-- Reply: how many of these jobs were checked, from the first one on, at least one; a text for
-- each fault; for each job its tube and the size of its body and its checkpoint in bytes, '' if its record is
-- broken; and for each member of a batch its key, the batch, and 'pending' or 'parked'

--include data: keys
--include data: sizes
--include data: record
--include data: metadata
--include data: heartbeat-timeout
--include check/start.lua
--include shared/ranges.lua
--include check/lanes.lua
--include check/locations.lua
--include check/after.lua

local listed = {} -- by tube: true, or false if it is not listed
local function is_listed(tube)
  if listed[tube] == nil then
    work = work + 1
    listed[tube] = call('ZSCORE', PREFIX .. 'tubes', tube) and true
  end
  return listed[tube]
end

local function note_broken(key) note('job ' .. id_text(key) .. ': its record is broken') end

local function check_listed(key, tube)
  if is_listed(tube) then return end
  note('job ' .. id_text(key) .. ': its tube ' .. tube .. ' is not listed')
  if REPAIR then
    list_tube(tube)
    listed[tube] = true
  end
end

-- check_persistent checks that a record does not expire, as staged ones do.
local function check_persistent(key)
  work = work + 1
  if call('PTTL', key) < 0 then return end
  note('job ' .. id_text(key) .. ': its record expires')
  if REPAIR then call('PERSIST', key) end
end

-- waits returns whether a job is ready or delayed.
local function waits(key, j)
  local places = { keys = {} }
  if STATE[j.letter] ~= 'ready' then return STATE[j.letter] == 'delayed' end
  add_reserved(places, key)
  add_other_places(places, key)
  return #places.keys == 0
end

-- check_expiring checks that a job is in expiring with its time. Others than those that wait need
-- not be: a tick removes them when their time is over. The time of an after-job has not begun.
local function check_expiring(key, j, ends)
  local at = call('ZSCORE', PREFIX .. 'expiring', key)
  work = work + 1
  if at and tonumber(at) == ends or not at and (j.after or not waits(key, j)) then return end
  note(string.format('job %s: it expires at %.0f, and in expiring that is %s', id_text(key), ends, at or 'nowhere'))
  if REPAIR then call('ZADD', PREFIX .. 'expiring', string.format('%.0f', ends), key) end
end

-- check_metadata checks the metadata block of a job, that its tube knows its key, and when it
-- expires, and sets j.group. It returns the size of the block in bytes.
local function check_metadata(key, j)
  j.group, j.key = '', key
  if j.letter < 'a' then return 0 end
  work = work + 2
  local f = read_metadata(key)
  if not f then
    note('job ' .. id_text(key) .. ': its metadata is broken')
    return 0
  end
  j.group, j.after, j.metadata = f.group or '', f.after, f
  local number = string.format('%.0f', tonumber(id_text(key)))
  local has = f.key ~= '' and call('HGET', PREFIX .. 'keys:' .. j.tube, f.key)
  if f.key ~= '' and has ~= number then
    note('job ' .. id_text(key) .. ': its key ' .. f.key .. ' is not in keys:' .. j.tube)
    if REPAIR and not has then call('HSET', PREFIX .. 'keys:' .. j.tube, f.key, number) end
  end
  if f.expires then check_expiring(key, j, f.expires) end
  return f.length + 2
end

-- check_reports checks that a job has what its metadata says of reports, and returns the size of its checkpoint in bytes.
local function check_reports(key, j)
  if not j.metadata or not j.metadata.reports then return 0 end
  local checkpoint = PREFIX .. 'checkpoint:' .. id_text(key)
  work = work + 2
  if call('EXISTS', checkpoint, PREFIX .. 'progress:' .. id_text(key)) == 0 then
    note('job ' .. id_text(key) .. ': it has neither a checkpoint nor a progress, and its metadata says that it has')
    j.metadata.reports = false
    if REPAIR then call('SETRANGE', key, string.format('%d', call('STRLEN', key) - CHANGING), pack_changing(j.metadata)) end
  end
  return call('STRLEN', checkpoint)
end

-- For each job its tube, and the sizes of its body and of its checkpoint in bytes.
local sizes = {}
local function add_size(tube, body, checkpoint)
  sizes[#sizes + 1] = tube
  sizes[#sizes + 1] = body
  sizes[#sizes + 1] = checkpoint
end

local function check_job(key, raw)
  check_persistent(key)
  local j = read_header(raw)
  if not STATE[j.letter] then
    note_broken(key)
    add_size('', 0, 0)
    return
  end
  local body = call('STRLEN', key) - NAME_AT + 1 - #j.tube - check_metadata(key, j)
  add_size(j.tube, body, check_reports(key, j))
  local found, score = queues_with(key, j.tube)
  if not is_in_place(j, found) then
    local places = places_of(key, j)
    if not is_right(j, places.keys) then
      report_misplaced(key, j, places)
      return
    end
    found = places.keys
  end
  if j.metadata then check_batches(key, j, found[1], score) end
  if j.group ~= '' then check_lane(key, j, found[1]) end
  check_listed(key, j.tube)
end

local done = 0
for k = 4, #ARGV do
  if done > 0 and exhausted() then break end
  local raw = call('GETRANGE', ARGV[k], '0', LONGEST_NAME)
  done, work = done + 1, work + 1
  if is_record(raw) then
    check_job(ARGV[k], raw)
  else
    if raw ~= '' then note_broken(ARGV[k]) end
    add_size('', 0, 0)
  end
end
return { done, wrong, sizes, members }
