-- The records of schedules. The hash schedules has them by name, as texts: package schema describes
-- the form. A record is in schedule-dues by when it is due, or, if it was handed out because of
-- that, in schedule-claims by when the claim ends. All functions here are given names of schedules.

local call, sub, format = redis.call, string.sub, string.format
local SCHEDULES, BODIES = PREFIX .. 'schedules', PREFIX .. 'schedule-bodies'
local NAMES, DUES, CLAIMS = PREFIX .. 'schedule-names', PREFIX .. 'schedule-dues', PREFIX .. 'schedule-claims'
local NEVER, NO_RESULTS = '-', '0 0 0 0 0 0 0'

-- The operations by their names, each given the index of its first argument. It returns the index
-- after its last one.
local COMMANDS = {}

-- unpack_record returns the version of a record, when it is due, the size of its body, and its
-- results; nil if it is broken or false.
local function unpack_record(record)
  return string.match(record or '', '^(%d+) (%S+) (%d+) (%d+ %d+ %d+ %S+ %S+ %d+ %d+) ')
end

-- results_of returns the results of the record that can be replaced by the one whose arguments begin
-- at i; nil if there is another one, or none.
local function results_of(i)
  local version, _, _, results = unpack_record(call('HGET', SCHEDULES, ARGV[i]))
  if (version or '0') ~= ARGV[i + 1] then return nil end
  return results or NO_RESULTS
end

-- set_due notes when a record is due, NEVER for never, and ends the claim.
local function set_due(name, due)
  call('ZREM', CLAIMS, name)
  if due == NEVER then
    call('ZREM', DUES, name)
  else
    call('ZADD', DUES, due, name)
  end
end

-- RECORD_ARGUMENTS is how many arguments a record has: name, before, version, due, text, body.
--   before  the version that it replaces; 0 for none
--   due     in ms, NEVER for never
--   text    see tube.Schedule.Text
local RECORD_ARGUMENTS = 6

-- write writes the record whose arguments begin at i.
local function write(i, results)
  local name, version, due, text, body = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  call('HSET', SCHEDULES, name, format('%s %s %d %s %s', version, due, #body, results, text))
  if body ~= '' then
    call('HSET', BODIES, name, body)
  elseif ARGV[i + 1] ~= '0' then
    call('HDEL', BODIES, name)
  end
  if ARGV[i + 1] == '0' then call('ZADD', NAMES, '0', name) end
  set_due(name, due)
  if due ~= NEVER then note_due(tonumber(due)) end
  sum.changed = true
end

local function remove(name)
  local found = call('HDEL', SCHEDULES, name) == 1
  call('HDEL', BODIES, name)
  for _, set in ipairs({ NAMES, DUES, CLAIMS }) do call('ZREM', set, name) end
  return found
end

-- schedules set: writes a record, unless another version is there than the one it replaces
--
-- ARGV    'schedules', 'set', and the arguments of a record
-- Keys    writes schedules, schedule-bodies, schedule-names, schedule-dues, schedule-claims
-- Answer  1, or 0 if nothing was written
function COMMANDS.set(i)
  local results = results_of(i)
  if results then write(i, results) end
  answer(results and 1 or 0)
  return i + RECORD_ARGUMENTS
end

-- schedules put: puts a job, and writes a record, unless another version is there than the one it
-- replaces
--
-- ARGV    'schedules', 'put', nominal, the arguments of a record, tube, known, and the arguments of
--         one of the puts of put-tagged
--           nominal  the nominal time of the job, ms
-- Keys    as schedules set and put-tagged
-- Answer  1, and that of put-tagged; or 0 if nothing was written
function COMMANDS.put(i)
  local record = i + 1
  local tube, put = ARGV[record + RECORD_ARGUMENTS], record + RECORD_ARGUMENTS + 2
  local results = results_of(record)
  answer(results and 1 or 0)
  if not results then
    OPS.drop_put(ARGV[put + OPS.PUT_ARGUMENTS - 1])
    return put + OPS.PUT_ARGUMENTS
  end
  local outcome, id = OPS.put_tagged(tube, put, 1, ARGV[put - 1] == '1', true)
  write(record, OPS.count_put(results, ARGV[i], outcome, id))
  return put + OPS.PUT_ARGUMENTS
end

-- schedules get: returns a record
--
-- ARGV    'schedules', 'get', name
-- Keys    reads schedules, schedule-bodies
-- Answer  the time in ms; 1, the record and its body, or 0
function COMMANDS.get(i)
  local record = call('HGET', SCHEDULES, ARGV[i])
  answer(NOW)
  answer(record and 1 or 0)
  if record then
    answer_text(record)
    answer_text(call('HGET', BODIES, ARGV[i]) or '')
  end
  return i + 1
end

-- schedules list: returns records in the order of their names
--
-- ARGV    'schedules', 'list', limit, after
--           limit  how many at most; more than 0
--           after  the name of the last one of the page before; '' for the first page
-- Keys    reads schedule-names, schedules
-- Answer  the time in ms; 1 if there are more, else 0; how many, and for each name and record
function COMMANDS.list(i)
  local limit, after = tonumber(ARGV[i]), ARGV[i + 1]
  local names = call('ZRANGEBYLEX', NAMES, after == '' and '-' or '(' .. after, '+', 'LIMIT', '0', format('%d', limit + 1))
  local more = table.remove(names, limit + 1)
  local records, found = names[1] and call('HMGET', SCHEDULES, unpack(names)) or {}, {}
  for k, name in ipairs(names) do
    if records[k] then found[#found + 1] = k end
  end
  answer(NOW)
  answer(more and 1 or 0)
  answer(#found)
  for _, k in ipairs(found) do
    answer_text(names[k])
    answer_text(records[k])
  end
  return i + 2
end

-- schedules delete: removes a record
--
-- ARGV    'schedules', 'delete', name
-- Keys    as schedules set
-- Answer  1, or 0 if there is none
function COMMANDS.delete(i)
  local found = remove(ARGV[i])
  if found then sum.changed = true end
  answer(found and 1 or 0)
  return i + 1
end
