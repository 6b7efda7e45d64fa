-- The main script of the engine. It carries out the operations of a call, in their order, and only
-- once, however often the call is sent.
--
-- KEYS[1]  prefix of every key of the partition, such as 'redstalk:{0}:'. All other keys
--          begin with it, and so are in the same slot of a cluster. keys.md describes them
-- ARGV[1]  name of this instance, 8 characters
-- ARGV[2]  number of this call, 16 digits
-- ARGV[3]  number of the last call of this instance that was recorded; '' before the
--          first, which must be a registration
-- ARGV[4]  how many jobs the call puts
-- ARGV[5]  options, mostly '': words with a value each
--            partitions=N  number of partitions, if not 1
--            number=N      number of this partition, if not 0
--            least=N       the first job put gets a number above this one, so that ids
--                          of several partitions grow with time
--            register=1    the call is the first under this name: it registers the
--                          instance, and does nothing else
--            largest=N     no record that the call puts has more bytes. Earlier calls
--                          may have put only smaller ones
--            void=1        the call is no longer wanted: record it, answer 'void;',
--                          and do nothing
--            staged=N      N records of jobs that the call puts were sent before it,
--                          see put:INST:NUMBER:K in keys.md. Their arguments are ''
--            full=1        Redis has refused to write because its memory is full. Carry
--                          out the call anyway: it puts nothing
--            memory=1      the call has checkpoints or long results: refuse it if memory is full
--            ahead=MS      for tests: is added to the clock
--            step=MS       for tests: is added to the clock, and to the one in the reply
--            leaseset=N    for tests: how many jobs make a lease set
--            budget=N      for tests: how many bytes of records one reply returns
--            large=N       for tests: the size from which on a record is large
-- ARGV[6]  id from which on the instance has the bodies of its own ranges in its body cache
-- ARGV[7…] the operations: the name of each and its arguments. Each is described where
--          it is defined, with its arguments, the keys it uses, and its answer
--
-- Reply: { text, ids, sizes, records… }, or the error LOST or UNSTAGED, see below
--   text     numbers end with ';', other texts begin with their length and ':'
--              seconds and microseconds of the clock; 0 and 0 in a repeated reply
--              1 if the call was recorded, else 0; plus 2 if a quota has refused puts; plus 4 if
--              policies say something about records of ended jobs
--              in that case how many, and for each its index among the puts of the
--              call, from 1 on
--              number of the first job put
--              microseconds until the first thing is due that this call made due, -1
--              if there is none
--              how many wake-ups there are for this instance, and for each the tube in
--              which its clients can take jobs, and how many
--              the answers of all operations, in their order
--              what has happened in tubes that does not follow from the answers, if
--              anything: for each event a word, a number, and the tube
--   ids      of the jobs that takes and reserve-job have taken and peeks have read, in
--            order, separated by commas. A range is one entry, 'ID;COUNT;…', and so is a
--            lease set, with its name in Redis. '!' ends an entry whose bodies are in
--            the body cache
--   sizes    'INDEX;BYTES;' for each large record, with its index in records, from 0 on
--   records  of the jobs in ids that are not in the body cache. Of a large one, which has
--            LARGE bytes or more, only the header and the name of the tube are certain
--            to be there; the instance reads it by itself
--
-- Recording. A call that changes something records its number and its reply in batch:INST. If
-- the instance sends it again, because the reply was lost, it gets the same reply and nothing
-- is changed. If the instance sends it again as void, the reply comes without records.
--
-- LOST. A call must follow the last recorded one. If it does not, Redis has lost data, or
-- other instances have declared this one dead, or the call was delayed on its way and its
-- instance has sent others since. Then the script changes nothing. Only a registration follows
-- nothing. So no work is done in the name of an instance that was declared dead, and other
-- instances know every instance that reserves jobs.
--
-- UNSTAGED. A staged record is missing. Then the script changes nothing.
--
-- Cut. One reply returns records of about BUDGET bytes, or a single larger one. Large ones
-- count with their whole size, because the instance reads them at once. An operation beyond
-- that is answered as cut: there may be a job, and the instance must ask again in another call.
--
-- Costs of a call. Redis runs this whole text in every call. Expensive are
--   each redis.call: half a microsecond, and what the command does
--   each function definition, by the number of upvalues (locals from outside) that it uses.
--     So the operations of nearly every call, in fast/, are not functions, and those in
--     take.lua, leases.lua, slow/, tagged/ and bulk/ are defined by the first operation that needs them
--   numbers passed to redis.call, which formats them with 17 digits. So it gets texts
--   new strings, such as arguments and results of redis.call: Lua hashes all of their
--     bytes, about a nanosecond each. So large records are kept out of here
--
-- Figures. A path that is there only for speed says what it saves, as the processor time of Redis for a job in µs, with
-- the path and, after "instead of", without. Measured as BenchmarkPuts does (used_cpu_*_main_thread of INFO, in a tube that
-- is used, bodies of 128 bytes), with 64 jobs in a call where nothing else is said; the least of three runs, in turn with
-- those without it, on a busy machine that is some four times slower than a quick one. So compare only the two.

-- Files: call/ has the parts that every call runs, fast/ the operations of nearly every call,
-- slow/ the other operations and what they share, tagged/ what needs tags, policies or leases,
-- groups/ what needs groups or limits, named/ the operations that schedules and batches of jobs have in common,
-- schedules/ and jobbatches/ what else they need, bulk/ operations on many jobs, shared/ what fsck's scripts need
-- too. A line '--include' stands for a file here, or for data that luadata.go generates.

--include data: keys
--include data: sizes
--include data: call
--include call/arguments.lua
--include call/recorded.lua
--include call/staged.lua
--include call/state.lua
--include call/jobs.lua

-- find_first and reserve_first are nil until define_take is called. SLOW is nil, or the result of slow_functions: functions
-- for other files, by their names, and operations, which has the operations that are not in fast/.
local find_first, reserve_first, hold, SLOW
local define_take, slow_functions

-- While leasing is set, reserve_first leases, and adds the answers that are tokens to tokens. The
-- functions are nil until define_leases is called.
local leasing, tokens = false, {}
local lease, with_token, lease_large, large_tokens, delete_leased

-- update_indexes(ends) writes what has changed about groups, nil if nothing has; ends says that the
-- call does nothing else any more. See groups/index.lua.
local update_indexes

function define_take()
--include data: terms
--include call/take.lua
end

-- sum.ended returns functions for the records of ended jobs, see call/ended.lua. ENDED is nil until it was called.
local ENDED
local function define_ended()
--include data: terms
--include data: ended
--include call/ended.lua
  return E
end
function sum.ended()
  ENDED = ENDED or define_ended()
  return ENDED
end

local function define_leases()
--include data: terms
--include data: lease
--include call/leases.lua
end

function slow_functions()
--include data: record
--include data: rules
--include data: verdicts
--include data: times
--include shared/ranges.lua
--include slow/tubes.lua
--include slow/groups.lua
--include slow/jobbatches.lua
--include slow/records.lua
--include slow/moves.lua
--include slow/put.lua
--include slow/take.lua
--include slow/move.lua
--include slow/peek.lua
--include slow/stats.lua
--include slow/hung.lua
--include slow/refs.lua
--include slow/named.lua
--include slow/tick.lua
--include slow/instances.lua
  local function define_tagged()
--include tagged/start.lua
--include data: metadata
--include data: after
--include data: placement
--include tagged/metadata.lua
--include tagged/policies.lua
--include tagged/keys.lua
--include tagged/expiry.lua
--include tagged/outcome.lua
--include tagged/put.lua
--include tagged/ended.lua
--include tagged/leases.lua
--include tagged/pending.lua
  end
  local function define_reports()
--include tagged/reports.lua
  end
  function define_groups()
--include groups/all.lua
  end
  local function define_bulk()
--include bulk/start.lua
--include data: metadata
--include data: counters
--include data: placement
--include bulk/walk.lua
--include bulk/flush.lua
--include bulk/list.lua
--include bulk/move.lua
--include bulk/import.lua
--include bulk/tallies.lua
  end
--include slow/next.lua
  return SLOW
end

-- The operations. at is the index of the next one in ARGV. Those in fast/ are inline, and
-- advance at themselves. The others are functions that get the index of their first argument
-- and return the index of the next operation.
local at = FIRST_OPERATION
while ARGV[at] do
  local word = ARGV[at]
  if word == 'put' then
--include fast/put.lua
  elseif word == 'take' or word == 'lease' then
--include fast/take.lua
  elseif word == 'delete-leased' then
--include fast/delete_leased.lua
  elseif word == 'delete-held' then
--include fast/delete_held.lua
  elseif word == 'drop-sets' then
--include fast/drop_sets.lua
  else
    if word ~= 'put-delayed' then write_new_jobs() end
    SLOW = SLOW or slow_functions()
    at = SLOW.operations[word](at + 1)
  end
end
write_new_jobs()
if update_indexes then update_indexes(true) end
if ENDED then ENDED.write() end

--include call/counters.lua
--include call/reply.lua
