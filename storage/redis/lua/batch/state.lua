-- The clock, the numbers of the jobs that are put, and what the batch comes to.

-- NOW is to be compared with, to find out whether something is due. NOW_UP is to
-- reckon from when something will be due: so nothing is ever early.
local clock = call('TIME')
if step ~= 0 then clock[1] = format('%.0f', clock[1] + (step - step % 1000) / 1000) end
local MS = clock[1] * 1000 + clock[2] / 1000 + ahead
local NOW = MS - MS % 1
local NOW_UP = NOW + 1

if largest_put then
  local most = call('HGET', COUNTS, 'largest')
  if most and tonumber(most) < largest_put then call('HSET', COUNTS, 'largest', format('%d', largest_put)) end
end

-- In a batch that puts jobs this is the first write. If Redis has no memory for them it
-- fails, and nothing has happened yet.
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

-- sum is what the batch comes to. Operations add to it, and counters.lua writes it.
local sum = {
  changed = void, -- whether anything has changed that must not be done twice
  puts = 0, takes = 0, -- jobs put, and jobs taken in bulk
  unput = 0, -- puts that made no job: their numbers are given back
  noted = nil, -- what is counted by tube, see note in slow/tubes.lua
  refused = nil, -- what the reply says of puts that quotas have refused
  earliest = math.huge, -- when the first thing is due that the batch made due
  -- By how much the counters of these names change. There is none of ready jobs: their
  -- number follows from the others.
  urgent = 0, delayed = 0, buried = 0, deleted = 0, timeouts = 0, grouped = 0,
}

-- The same by tube: jobs put, deleted, and become ready; bytes of bodies; and joined,
-- joined-urgent.
local totals, deletes, wakeups, bytes = {}, {}, {}, {}
local joined, joined_urgent = {}, {}

-- The reply: the answers, the ids of jobs that were taken, the sizes of large records, and
-- behind three places that are filled in last, the records. carried is how many bytes these
-- have, largest how many a single one may have, once it was asked for.
local answers, taken, sizes, records = {}, {}, {}, { '', '', '' }
local carried, largest = 0, nil
if void then answers[1] = VOIDED end

