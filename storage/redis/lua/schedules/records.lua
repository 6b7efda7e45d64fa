-- Schedules: what not all named records have. The hash schedule-bodies has the bodies of their jobs.

local KIND, RECORDS, BODIES = 'schedule', PREFIX .. 'schedules', PREFIX .. 'schedule-bodies'
--include shared/named.lua
local NO_RESULTS = '0 0 0 0 0 0 0'

-- The operations by their names, each given the index of its first argument. It returns the index after its last one. Those of
-- all kinds are in named/commands.lua.
local COMMANDS = {}

-- unpack_record returns the version of a record, when it is due, the size of its body, and its
-- results; nil if it is broken or false.
local function unpack_record(record)
  return string.match(record or '', '^(%d+) (%S+) (%d+) (%d+ %d+ %d+ %S+ %S+ %d+ %d+) ')
end

-- results_of returns the results of the record that can be replaced by the one whose arguments begin
-- at i; nil if there is another one, or none.
local function results_of(i)
  local version, _, _, results = unpack_record(call('HGET', RECORDS, ARGV[i]))
  if (version or '0') ~= ARGV[i + 1] then return nil end
  return results or NO_RESULTS
end

-- RECORD_ARGUMENTS is how many arguments a record has: name, before, version, due, text, body.
--   before  the version that it replaces; 0 for none
--   due     in ms, NEVER for never
--   text    see tube.Schedule.Text
local RECORD_ARGUMENTS = 6

-- write writes the record whose arguments begin at i.
local function write(i, results)
  local name, version, due, text, body = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5]
  call('HSET', RECORDS, name, format('%s %s %d %s %s', version, due, #body, results, text))
  if body ~= '' then
    call('HSET', BODIES, name, body)
  elseif ARGV[i + 1] ~= '0' then
    call('HDEL', BODIES, name)
  end
  if ARGV[i + 1] == '0' then call('ZADD', NAMES, '0', name) end
  place(name, due)
  if due ~= NEVER then note_due(tonumber(due)) end
  sum.changed = true
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
    SLOW.drop_put(ARGV[put + SLOW.PUT_ARGUMENTS - 1])
    return put + SLOW.PUT_ARGUMENTS
  end
  local outcome, id = SLOW.put_tagged(tube, put, 1, ARGV[put - 1] == '1', true)
  write(record, SLOW.count_put(results, ARGV[i], outcome, id))
  return put + SLOW.PUT_ARGUMENTS
end

-- schedules delete: removes a record
--
-- ARGV    'schedules', 'delete', name
-- Keys    as schedules set
-- Answer  1, or 0 if there is none
function COMMANDS.delete(i)
  local found = remove_name(ARGV[i])
  call('HDEL', BODIES, ARGV[i])
  if found then sum.changed = true end
  answer(found and 1 or 0)
  return i + 1
end

local function read(names) return names[1] and call('HMGET', RECORDS, unpack(names)) or {} end

local function due_of(record)
  local _, due, size = unpack_record(record)
  return due, size
end

-- say_record adds a record to the reply, and its body if that is not a list.
local function say_record(record, name, why)
  answer_text(record)
  if why ~= 'list' then answer_text(call('HGET', BODIES, name) or '') end
end

local function add_latest() end

--include named/commands.lua
return COMMANDS
