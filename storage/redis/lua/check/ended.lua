-- Checks the chunks of records of ended jobs, and what has them, both ways. With repair faults are corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  what is checked:
--            chunk    name, size, tube, batch, and between what times it is to be dropped, of a chunk; and runs of the ids in it: each the first id, and
--                     how many there are
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

-- want_run checks that ended-ids has n ids, from the first one on, in that chunk: as one member, or more.
local function want_run(name, first, n)
  local id, behind = tonumber(first), first + n * STEP
  while id < behind do
    local text = string.format(ID_FORMAT, id)
    local member = call('ZREVRANGEBYLEX', PREFIX .. 'ended-ids', '[' .. text .. '~', '-', 'LIMIT', '0', '1')[1]
    local from, count, of = string.match(member or '', '^(%d+);(%d+);(%d+)$')
    if of ~= name or from + count * STEP <= id then
      want_member('ended-ids', string.format('%s;%d;%s', text, (behind - id) / STEP, name), '0')
      return
    end
    id = from + count * STEP
  end
end

-- check_chunk checks that all has a chunk which must have it, if it still is there as it was.
local function check_chunk()
  local name, tube, batch, from, upto = ARGV[5], ARGV[7], ARGV[8], ARGV[9], ARGV[10]
  if call('STRLEN', CHUNK .. name) ~= tonumber(ARGV[6]) then return end
  want_member('ended-of:' .. tube, name, name)
  if batch ~= '' then want_member('ended-in:' .. batch, name, name) end
  local over = tonumber(call('ZSCORE', PREFIX .. 'ended-until', name) or 0)
  if over < tonumber(from) or over > tonumber(upto) then want_member('ended-until', name, upto) end
  for k = 11, #ARGV, 2 do want_run(name, ARGV[k], ARGV[k + 1]) end
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
