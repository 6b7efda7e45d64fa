-- The records of batches of jobs. b, below, is a record as a table with these fields: name, created, ttl, sealed,
-- pending, parked, done, gone, stamp, verdict, since and due, math.huge for never. A batch of operations reads each record
-- once, changes the table, and writes it at its end.

local KIND, RECORDS = 'job-batch', PREFIX .. 'job-batches'
--include shared/named.lua
local AFTER, MEMBERS = PREFIX .. 'after:', PREFIX .. 'members:'

-- The operations by their names, each given the index of its first argument. It returns the index after its last one. Those of
-- all kinds are in named/commands.lua.
local COMMANDS = {}

-- B has the functions that other files need.
local B = { commands = COMMANDS }

local records = {} -- by name, as far as they were read; false if there is none
local dirty = {} -- those that must be written

-- unpack_record returns the record with a name in a text; nil if that is broken, or false.
local function unpack_record(name, text)
  local created, ttl, sealed, pending, parked, done, gone, stamp, verdict, since, due =
    string.match(text or '', '^(%d+) (%d+) ([01]) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+)$')
  if not created then return nil end
  return {
    name = name, created = tonumber(created), ttl = tonumber(ttl), sealed = sealed == '1', pending = tonumber(pending), parked = tonumber(parked),
    done = tonumber(done), gone = tonumber(gone), stamp = tonumber(stamp), verdict = tonumber(verdict), since = tonumber(since), due = tonumber(due) or math.huge,
  }
end

local function due_text(b) return b.due < math.huge and format('%.0f', b.due) or NEVER end

local function pack_record(b)
  return format('%.0f %.0f %d %.0f %.0f %.0f %.0f %.0f %d %.0f %s', b.created, b.ttl, b.sealed and 1 or 0, b.pending, b.parked, b.done, b.gone,
    b.stamp, b.verdict, b.since, due_text(b))
end

-- record_of returns the record with a name; false if there is none.
local function record_of(name)
  if records[name] == nil then records[name] = unpack_record(name, call('HGET', RECORDS, name)) or false end
  return records[name]
end

-- change notes that a record must be written.
local function change(b)
  dirty[b], sum.job_batches, sum.changed = true, B, true
end

-- set_due sets when a record is due, and ends its claim.
local function set_due(b, at)
  b.due, b.moved = at, true
  change(b)
end

-- due_now makes a record due. It is not due later than before.
local function due_now(b) set_due(b, math.min(b.due, NOW)) end

-- set_deadline makes a record due when the batch must have been sealed, unless it is due already.
local function set_deadline(b)
  if b.due > NOW then
    set_due(b, b.created + (b.ttl > 0 and b.ttl or DEFAULT_TTL))
  else
    due_now(b)
  end
end

-- make returns the record with a name, a new one if there is none, and whether it is new. ttl is 0 if none is said.
local function make(name, ttl)
  local b, is_new = record_of(name), false
  if not b then
    b, is_new = { name = name, created = NOW, ttl = 0, sealed = false, pending = 0, parked = 0, done = 0, gone = 0, stamp = 0, verdict = OPEN, since = 0, due = math.huge }, true
    records[name] = b
    call('ZADD', NAMES, '0', name)
    set_deadline(b)
  end
  if ttl > 0 and b.ttl == 0 then
    b.ttl = ttl
    change(b)
    if not b.sealed then set_deadline(b) end
  end
  return b, is_new
end

-- changed is called when the counts of a record have changed: it is due if its members have ended.
local function changed(b)
  change(b)
  if b.sealed and b.pending == 0 then due_now(b) end
end

-- seal seals a batch. In its home partition it is due then. In the others nothing need be done about a record without
-- pending members before the home has the whole batch forgotten; it is due long after that, in case the home was lost.
local function seal(b, is_home)
  if b.sealed then return end
  b.sealed, b.stamp = true, b.stamp + 1
  if is_home then
    due_now(b)
  elseif b.due > NOW then
    set_due(b, b.created + 2 * (b.ttl > 0 and b.ttl or DEFAULT_TTL))
  end
  change(b)
end

-- add_members adds n jobs with consecutive numbers, of which key is the first, to the index of members.
local function add_members(b, key, n)
  local first = tonumber(sub(key, #PREFIX + 1, KEY_LENGTH))
  b.added = b.added or {}
  local last = b.added[#b.added]
  if last and last.first + last.n * partitions == first then
    last.n = last.n + n
  else
    b.added[#b.added + 1] = { first = first, n = n }
  end
  change(b)
end

-- write_members appends what was added to the index, as 'ID', or 'ID;COUNT' for several jobs.
local MOST = 1000 -- arguments of a command
local function write_members(b)
  local names = {}
  for k, added in ipairs(b.added or {}) do
    names[#names + 1] = added.n > 1 and format('%.0f;%d', added.first, added.n) or format('%.0f', added.first)
    if #names == MOST or k == #b.added then
      call('RPUSH', MEMBERS .. b.name, unpack(names))
      names = {}
    end
  end
  b.added = nil
end

-- write_due puts a record where it belongs because of when it is due.
local function write_due(b)
  place(b.name, due_text(b))
  note_due(b.due)
  b.moved = false
end

-- write writes the records that have changed.
function B.write()
  for b in pairs(dirty) do
    call('HSET', RECORDS, b.name, pack_record(b))
    write_members(b)
    if b.moved then write_due(b) end
    dirty[b] = nil
  end
  sum.job_batches = nil
end

-- remove_record removes a record and all that belongs to it.
local function remove_record(b)
  B.write()
  records[b.name] = false
  remove_name(b.name)
  call('DEL', MEMBERS .. b.name, AFTER .. b.name)
  sum.changed = true
end

-- clock_went_back says that all records that are due later are to be looked at: one that was due stays it, and so does one that was
-- not sealed in time by a wrong clock. look_again makes some of them due, the earliest first; the rest follows with the next heartbeats.
local MOST_BACK = 500
function B.clock_went_back()
  call('HSET', COUNTS, 'batches-back', call('ZCOUNT', DUES, '(' .. format('%.0f', NOW), '+inf'))
end
function B.look_again()
  local names = call('ZRANGEBYSCORE', DUES, '(' .. format('%.0f', NOW), '+inf', 'LIMIT', '0', format('%d', MOST_BACK))
  for _, name in ipairs(names) do
    local b = record_of(name)
    if b then due_now(b) end
  end
  if #names < MOST_BACK or count_up(COUNTS, 'batches-back', -MOST_BACK) <= 0 then call('HDEL', COUNTS, 'batches-back') end
  sum.changed = true
end
