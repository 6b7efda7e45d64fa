-- Jobs that are read from Redis: tables with the fields of their record's header, and with
-- tube, key, state, raw (the bytes that were read), and has_metadata (whether there is a
-- metadata block, which tagged/ reads). If the record is broken the state is one from which no
-- arrow leads.

local function job_from(key, raw)
  local j = read_header(raw)
  j.key, j.raw, j.state = key, raw, STATE[j.letter] or j.letter
  j.has_metadata = j.letter >= 'a'
  return j
end

-- load reads a job without its body; nil if there is none.
local function load(key)
  local raw = call('GETRANGE', key, '0', LONGEST_NAME)
  if raw == '' then return nil end
  return job_from(key, raw)
end

-- save writes the header of a job.
local function save(j)
  j.letter = LETTER[j.state]
  if j.has_metadata then j.letter = string.lower(j.letter) end
  call('SETRANGE', j.key, '0', pack_header(j))
end

-- length_of returns how many bytes the record of a job has, 0 if there is none.
local lengths = {}
local function length_of(key)
  lengths[key] = lengths[key] or call('STRLEN', key)
  return lengths[key]
end

-- add_record adds the record of a job to the reply; of a large one its beginning and its size.
-- It returns it; nil if there is none.
local function add_record(key)
  local size = length_of(key)
  if size == 0 then return nil end
  local raw
  if size < LARGE then
    raw = call('GET', key)
  else
    raw = call('GETRANGE', key, '0', LONGEST_NAME)
    sizes[#sizes + 1] = format('%d;%d;', #records - RECORDS_FROM, size)
  end
  records[#records + 1], carried = raw, carried + size
  return raw
end

-- is_in_set returns whether this instance has a job in a lease set.
local function is_in_set(key) return range_by_bytes(LEASE_SETS, key, partitions) ~= nil end

SLOW.load, SLOW.length_of, SLOW.lengths, SLOW.add_record, SLOW.is_in_set = load, length_of, lengths, add_record, is_in_set

-- add_any_size adds the records of jobs to the reply. It returns false if one of them is
-- missing: then the reply is incomplete.
function SLOW.add_any_size(keys)
  for _, key in ipairs(keys) do
    if not add_record(key) then return false end
  end
  return true
end

-- fits returns whether the reply can return the record of a job. The first one always fits.
local function fits(key)
  return carried == 0 or carried + length_of(key) <= BUDGET
end

-- how_many_fit returns for how many of the jobs in found the reply can return the records.
local function how_many_fit(found)
  local before, bytes = 0, carried
  for place, size in ipairs(found.sizes) do
    for at = before + 1, found.cached[place] and before or before + size do
      bytes = bytes + length_of(found.keys[at])
      if bytes > BUDGET and (at > 1 or carried > 0) then return at - 1 end
    end
    before = before + size
  end
  return before
end

-- fit returns as much of found as the reply can return, and whether that is less.
function SLOW.fit(queue, found)
  local n = how_many_fit(found)
  if n == found.count then return found, false end
  if n == 0 then return { count = 0 }, true end
  return find_first(queue, n, math.huge), true
end

-- drop_lost keeps the jobs in found that have a record, as single ones, with their records in
-- the reply after the first base ones, of which sized are large. The others are no longer
-- counted as urgent.
function SLOW.drop_lost(queue, found, base, sized)
  local scores = call('ZRANGE', queue, '0', format('%d', #found.names - 1), 'WITHSCORES')
  local left, ones = {}, {}
  for at = #records, base + 1, -1 do records[at] = nil end
  for at = #sizes, sized + 1, -1 do sizes[at] = nil end
  for place, name in ipairs(found.names) do
    local first = id_of(name)
    for k = 0, found.sizes[place] - 1 do
      local key = key_of(first + k * partitions)
      if add_record(key) then
        left[#left + 1], ones[#ones + 1] = key, 1
      elseif tonumber(scores[2 * place]) < URGENT_BELOW then
        sum.urgent = sum.urgent - 1
      end
    end
  end
  found.count, found.keys, found.names, found.sizes = #left, left, left, ones
  found.ttrs, found.cached, found.urgent = {}, {}, 0
end

-- delete_each deletes the jobs of a tube in ARGV[from … upto] that exist and have no metadata.
-- It answers which these are, and returns how many, and the size of their bodies in bytes.
function SLOW.delete_each(tube, from, upto)
  local each, count, size = {}, 0, 0
  for k = from, upto do
    size = size + math.max(call('STRLEN', ARGV[k]) - #tube - NAME_AT + 1, 0)
    local deleted = call('DEL', ARGV[k])
    each[#each + 1], count = deleted, count + deleted
    if call('ZREM', RESERVED, ARGV[k]) == 0 and is_in_set(ARGV[k]) then
      sum.in_sets = sum.in_sets - deleted
    end
    call('ZREM', READY .. tube, ARGV[k])
  end
  answer(NOT_FOUND)
  answer_text(concat(each))
  return count, size
end
