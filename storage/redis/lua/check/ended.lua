-- Checks the chunks of records of ended jobs, and what has them, both ways. With repair faults are corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions, not used
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  what is checked:
--            chunk    name, tube, batch, and when its records go, of a chunk, and members of ended-ids that there must be
--            broken   names of chunks that cannot be read
--            a key    members of that sorted set, which name chunks
--            tubes    members of ended-tubes
--            waits    ids in ended-waits
--            sums     the number of all records, and their bytes, tube '', of all; then the same of tubes
-- ARGV[5…] these
--
-- Reply: how many of the arguments were checked, from the first one on, at least one; and a text for each fault

--include data: keys
--include data: heartbeat-timeout
--include check/start.lua

local WHAT, CHUNK, COUNTS, BYTES = ARGV[4], PREFIX .. 'ended:', PREFIX .. 'counts', PREFIX .. 'ended-bytes'

-- want_member checks that a sorted set has a member with that score.
local function want_member(key, member, score)
  local have = call('ZSCORE', PREFIX .. key, member)
  if have and tonumber(have) == tonumber(score) then return end
  note(key .. ' lacks ' .. member)
  if REPAIR then call('ZADD', PREFIX .. key, score, member) end
end

-- check_chunk checks that all has a chunk which must have it, if it still is there.
local function check_chunk()
  local name, tube, batch, over = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
  if call('EXISTS', CHUNK .. name) == 0 then return end
  want_member('ended-of:' .. tube, name, name)
  if batch ~= '' then want_member('ended-in:' .. batch, name, name) end
  want_member('ended-until', name, over)
  for k = 9, #ARGV do want_member('ended-ids', ARGV[k], '0') end
  local oldest = call('ZSCORE', PREFIX .. 'ended-tubes', tube)
  if oldest and tonumber(oldest) <= tonumber(name) then return end
  note('ended-tubes has ' .. tube .. ' at ' .. (oldest or 'nowhere') .. ', and there is ended:' .. name)
  if REPAIR then call('ZADD', PREFIX .. 'ended-tubes', name, tube) end
end

local function check_broken(name)
  if call('EXISTS', CHUNK .. name) == 0 then return end
  note('ended:' .. name .. ' is broken')
  if REPAIR then call('DEL', CHUNK .. name) end
end

-- check_member checks that a chunk exists that a member of a sorted set names.
local function check_member(member)
  if call('EXISTS', CHUNK .. string.match(member, '%d*$')) == 1 or not call('ZSCORE', PREFIX .. WHAT, member) then return end
  note(WHAT .. ' has ' .. member .. ': there are no such records')
  if REPAIR then call('ZREM', PREFIX .. WHAT, member) end
end

local function check_tube(tube)
  if call('EXISTS', PREFIX .. 'ended-of:' .. tube) == 1 or not call('ZSCORE', PREFIX .. 'ended-tubes', tube) then return end
  note('ended-tubes has ' .. tube .. ', which has no records of ended jobs')
  if REPAIR then call('ZREM', PREFIX .. 'ended-tubes', tube) end
end

local function check_wait(id)
  if call('EXISTS', PREFIX .. id) == 1 or call('HEXISTS', PREFIX .. 'ended-waits', id) == 0 then return end
  note('ended-waits has ' .. id .. ': there is no such job')
  if REPAIR then call('HDEL', PREFIX .. 'ended-waits', id) end
end

-- check_field compares a counter, which is not there if it is 0.
local function check_field(key, field, should)
  local have = tonumber(call('HGET', key, field) or 0)
  if have == should then return end
  note(string.format('%s of %s is %.0f, and should be %.0f', field == '' and 'the sum' or field, string.sub(key, #PREFIX + 1), have, should))
  if REPAIR then call('HSET', key, field, string.format('%.0f', should)) end
end

local CHECKS = { broken = check_broken, tubes = check_tube, waits = check_wait }
local done, step = 0, WHAT == 'sums' and 2 or 1
if WHAT == 'chunk' then
  check_chunk()
  return { #ARGV - 4, wrong }
end
if WHAT == 'sums' then
  check_field(COUNTS, 'ended-records', tonumber(ARGV[5]))
  done = 1
end
for k = 5 + done, #ARGV, step do
  if done > 1 and exhausted() then break end
  if WHAT == 'sums' then
    check_field(BYTES, ARGV[k], tonumber(ARGV[k + 1]))
  else
    (CHECKS[WHAT] or check_member)(ARGV[k])
  end
  done, work = done + step, work + 3
end
return { done, wrong }
