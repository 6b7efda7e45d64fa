-- The clock, the numbers of the jobs that are put, and the changes of the call.

-- NOW is compared with due times, to find out whether something is due. NOW_UP is used to
-- compute new due times, so that nothing is ever early.
local clock = call('TIME')
if step ~= 0 then clock[1] = format('%.0f', clock[1] + (step - step % 1000) / 1000) end
local MS = clock[1] * 1000 + clock[2] / 1000 + ahead
local NOW = MS - MS % 1
local NOW_UP = NOW + 1

if largest_put then
  local most = call('HGET', COUNTS, 'largest')
  if most and tonumber(most) < largest_put then call('HSET', COUNTS, 'largest', format('%d', largest_put)) end
end

-- In a call that puts jobs this is the first write. If Redis has no memory for them it fails
-- before anything else has happened.
local first_number = 0
if ARGV[4] ~= '0' then
  first_number = call('HINCRBY', COUNTS, 'ids', ARGV[4]) - ARGV[4] + 1
  if first_number <= least then
    local by = format('%.0f', least + 1 - first_number)
    call('HINCRBY', COUNTS, 'ids', by)
    call('HINCRBY', COUNTS, 'skipped', by)
    first_number = least + 1
  end
end

-- sum is the changes of the call. Operations add to it, and counters.lua writes it.
local sum = {
  changed = void, -- whether anything has changed that must not be repeated
  puts = 0, takes = 0, -- jobs put, and jobs taken in bulk
  unput = 0, -- puts that have made no job: their numbers are returned
  keeping = keeping, -- whether policies say something about records of ended jobs
  ended_by_server = nil, -- whether the server itself ends reservations: then they do not count
  reason = nil, failed_holder = nil, -- of the job that is being moved, see because in tagged/outcome.lua
  holder = nil, started = nil, result = nil, -- of the job that is being moved, see ending in tagged/ended.lua
  held_since = nil, -- of the job that is being touched, if it is held for very long, see slow/hung.lua
  reports = nil, keeps_checkpoint = nil, -- of the job that is being moved, see tagged/reports.lua
  noted = nil, -- events counted by tube, see SLOW.note in slow/tubes.lua
  refused = nil, -- what the reply says of puts refused because of quotas
  earliest = math.huge, -- when the first thing is due that the call made due
  lone = {}, -- changes of joined-lone by tube
  -- Changes of the counters with these names. There is none for ready jobs: their number
  -- follows from the others.
  urgent = 0, delayed = 0, buried = 0, deleted = 0, timeouts = 0, in_sets = 0,
  ['held-keys'] = 0, checkpoints = 0, ['checkpoint-bytes'] = 0,
}

-- The same by tube: jobs put and deleted; jobs that have become ready, for each of which an
-- instance is woken (wakeups); bytes of bodies; and joined, joined-urgent.
local totals, deletes, wakeups, bytes = {}, {}, {}, {}
local joined, joined_urgent = {}, {}

-- The reply: the answers, the ids of jobs that were taken, the sizes of large records, and the
-- records, after three places that are filled in last. carried is the size of these records in
-- bytes, largest the limit of a single one, once it was read.
local answers, taken, sizes, records = {}, {}, {}, { '', '', '' }
local carried, largest = 0, nil
if void then answers[1] = VOIDED end

