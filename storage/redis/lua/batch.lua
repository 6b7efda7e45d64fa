-- The script of the engine. It carries out a batch of operations, in their order,
-- and it does so once, however often the batch is sent.
--
-- KEYS[1]  prefix of every key of the partition, such as 'redstalk:{0}:'. All other
--          keys begin with it, and so are in the same slot of a cluster. keys.md
--          describes them.
-- ARGV[1]  name of this instance, 8 characters
-- ARGV[2]  number of this batch, 16 digits
-- ARGV[3]  number of the last batch of this instance that was recorded; '' before the
--          first, which must be a registration
-- ARGV[4]  how many jobs the batch puts
-- ARGV[5]  options, '' mostly: words with a value each
--            partitions=N  number of partitions, if not 1
--            number=N      number of this partition, if not 0
--            least=N       the first job put gets a number above this one, so that ids
--                          of several partitions grow with time
--            register=1    the batch is the first under this name: it makes the
--                          instance known, and does nothing else
--            largest=N     no record that the batch puts has more bytes; earlier
--                          batches may have put none as large
--            void=1        the batch is no longer wanted: record it, answer 'void;',
--                          and do nothing
--            staged=N      so many records of jobs that the batch puts were sent before it,
--                          see put:INST:NUMBER:K in keys.md. Their arguments are ''
--            full=1        Redis has refused to write because its memory is full. Do
--                          the batch all the same: it puts nothing
--            ahead=MS      in tests: to be added to the clock
--            step=MS       in tests: to be added to the clock, and to the one in the reply
--            leaseset=N    in tests: how many jobs make a lease set
--            budget=N      in tests: how many bytes of records one reply brings
--            large=N       in tests: from how many bytes on a record is a large one
-- ARGV[6]  id from which on the instance has the bodies of the ranges that it has put
--          in its body cache
-- ARGV[7…] the operations: the name of each and its arguments. Each is described where
--          it is defined, with its arguments, the keys it uses, and its answer
--
-- Reply: { text, ids, sizes, records… }, or the error LOST or UNSTAGED, see below
--   text     numbers end with ';', other texts begin with their length and ':'
--              seconds and microseconds of the clock; 0 and 0 in an answer given again
--              1 if the batch was recorded, else 0; and 2 more if a quota has refused puts
--              if so, how many, and of each the place among the puts of the batch, from 1 on
--              number of the first job put
--              microseconds until the first thing is due that this batch made due, -1
--              if there is none
--              how many hints there are, and the hints: names of tubes in which
--              sessions of this instance may take jobs, and how many each
--              the answers of all operations, in their order
--              what has happened in tubes beyond what the instance knows by the answers, if
--              anything: for each the word, a number, and the tube
--   ids      of the jobs that takes and reserve-job have taken, and peeks have looked at, in their
--            order, separated by commas. A range is one entry, 'ID;how many;…', and so is a lease set,
--            which is its name in Redis. '!' ends an entry whose bodies are in the
--            body cache
--   sizes    'PLACE;BYTES;' for each large record. The place is that in records, from 0 on
--   records  of those jobs in ids that are not in the body cache; of a large one, which has
--            LARGE bytes or more, only the header and the name of the tube are sure to be
--            there. The instance reads it by itself
--
-- Recording. A batch that changes something records its number and its reply, in
-- batch:INST. If the instance sends it again, because the reply was lost, it gets the
-- same reply and nothing is changed. If the instance sends it again as void, the reply
-- comes without records.
--
-- LOST. A batch must follow the one recorded last. If it does not, Redis has lost data,
-- or other instances have declared this one dead, or the batch was held up on its way
-- and its instance has sent others since. Then the script changes nothing. Only a
-- registration follows nothing. So no work is done in the name of an instance that was
-- declared dead, and other instances know of every instance that reserves jobs.
--
-- UNSTAGED. A record that was to be sent before the batch is not there. Then the script
-- changes nothing.
--
-- Cut. One reply brings records of about BUDGET bytes, or a single one that is larger; large
-- ones count whole, as the instance reads them in one go. An operation beyond that is
-- answered as cut: there may be a job, and the instance has to ask again in another call.
--
-- What a call costs. Redis runs this whole text in every call. Expensive are
--   each redis.call: half a microsecond, and what the command does
--   each function that is defined, by the number of locals from outside that it uses. So the
--     operations of nearly every batch, in fast/, are not functions; and those of take.lua,
--     of slow/ and of tagged/ are defined by the first operation that needs them
--   numbers given to redis.call, which prints them with 17 digits. So it is given text
--   new strings, such as arguments and what a redis.call returns: Lua hashes all of their
--     bytes, for about a nanosecond each. So large records are kept out of here

-- Where what is: batch/ has the parts that every call runs, fast/ the operations of nearly
-- every batch, slow/ the others and what they share, shared/ what the checks need, too.
-- A line '--include' stands for a file here, or for data that luadata.go generates.

--include data: keys
--include data: sizes
--include data: call
--include batch/arguments.lua
--include batch/recorded.lua
--include batch/staged.lua
--include batch/state.lua
--include batch/jobs.lua

-- find_first and reserve_first are nil until define_take is called. SLOW is nil, or what
-- slow_functions has returned.
local find_first, reserve_first, SLOW
local define_take, slow_functions

function define_take()
--include data: terms
--include batch/take.lua
end

-- What only jobs with tags, tubes with policies and leases need is defined when SLOW is
-- asked for a function that it does not have, and then what operations on many jobs need.
function slow_functions()
--include data: record
--include data: rules
--include data: verdicts
--include data: times
--include shared/ranges.lua
--include slow/tubes.lua
--include slow/records.lua
--include slow/moves.lua
--include slow/put.lua
--include slow/take.lua
--include slow/move.lua
--include slow/peek.lua
--include slow/stats.lua
--include slow/refs.lua
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
--include tagged/outcome.lua
--include tagged/put.lua
--include tagged/leases.lua
--include tagged/pending.lua
  end
  local function define_bulk()
--include bulk/start.lua
--include data: metadata
--include data: counters
--include bulk/walk.lua
--include bulk/flush.lua
--include bulk/list.lua
--include bulk/move.lua
--include bulk/import.lua
  end
  local function define_next(define, and_then)
    setmetatable(OPS, { __index = function(_, name)
      setmetatable(OPS, nil)
      define()
      if and_then then define_next(and_then) end
      return OPS[name]
    end })
  end
  define_next(define_tagged, define_bulk)
  return OPS
end

-- The operations. at is where the next one begins in ARGV. Those in fast/ are here,
-- and move at themselves; the others are functions of slow/, which are given where
-- their arguments begin and return where those of the next operation do.
local at = FIRST_OPERATION
while ARGV[at] do
  local word = ARGV[at]
  if word == 'put' then
--include fast/put.lua
  elseif word == 'take' then
--include fast/take.lua
  elseif word == 'take-handoff' then
--include fast/handoff.lua
  elseif word == 'delete-held' then
--include fast/delete_held.lua
  elseif word == 'drop-sets' then
--include fast/drop_sets.lua
  else
    if word ~= 'put-delayed' then write_new_jobs() end
    SLOW = SLOW or slow_functions()
    at = SLOW[word](at + 1)
  end
end
write_new_jobs()

--include batch/counters.lua
--include batch/reply.lua
