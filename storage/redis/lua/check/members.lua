-- Which of these members of queues are no jobs of these. It changes nothing
-- unless it is to repair: then it takes them out.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much the call may do, see alone.lua
-- ARGV[4…] members, for each its queue, a key behind the prefix: ready:TUBE,
--          delayed:TUBE, buried:TUBE or reserved:INST; '' if it is that of the
--          one before; and the whole key of a job, a run or a group
--
-- Reply: how many of these members, from the first on, it has looked at, which is one
-- at least; and a text for each that is wrong

local queue, kind, name

-- is_elsewhere returns whether a job in a run, or reserved, is in a queue by itself,
-- too, and whoever looked at the job has not noticed.
local function is_elsewhere(id, raw)
  if #raw <= 41 or kind ~= 'reserved' and string.sub(raw, 1, 1) == 'R' then return false end
  local letter, _, tube = parse(raw)
  work = work + 1
  if not QUEUE[letter] or not redis.call('ZSCORE', PREFIX .. QUEUE[letter] .. tube, id) then return false end
  return is_settled(letter, tube, (in_queues(id, tube)))
end

-- what_of says what is wrong with a job in the queue, by itself or in a run or
-- group. Of a group some may have been deleted. If the job is elsewhere, that is noted.
local function what_of(id, in_run, elsewhere)
  local raw = ''
  if string.sub(id, 1, #PREFIX) == PREFIX then raw = redis.call('GETRANGE', id, '0', '241') end
  if raw == '' and kind == 'reserved' and in_run then return nil end
  if raw == '' then return 'there is no such job' end
  if kind ~= 'reserved' and string.sub(raw, 43, 42 + (string.byte(raw, 42) or 0)) ~= name then
    return 'the job is of another tube'
  end
  if in_run and redis.call('ZSCORE', PREFIX .. queue, id) then return 'it is in a run and by itself' end
  if (in_run or kind == 'reserved') and is_elsewhere(id, raw) then elsewhere[#elsewhere + 1] = id end
end

-- settle notes that a job is in several places, and puts it right.
local function settle(id)
  local letter, pri, tube = parse(redis.call('GETRANGE', id, '0', '241'))
  local found, score, run, group, whose = places(id, tube, pri)
  if #found < 2 then return end
  misplaced(id, letter, tube, found)
  if ARGV[1] == '1' then put_right(id, letter, tube, pri, found, score, run, group, whose) end
end

-- look looks at a member.
local function look(member)
  local bad, elsewhere = {}, {}
  work = work + 1
  if not redis.call('ZSCORE', PREFIX .. queue, member) then return end
  local ids = (kind == 'ready' or kind == 'reserved') and keys_of(member, STEP) or { member }
  work = work + (#ids > 1 and 2 or 1) * #ids
  for _, id in ipairs(ids) do
    bad[id] = what_of(id, #ids > 1, elsewhere)
    if bad[id] then wrong[#wrong + 1] = queue .. ' has ' .. string.gsub(id, '^.*:', '') .. ': ' .. bad[id] end
  end
  for _, id in ipairs(elsewhere) do settle(id) end
  if not next(bad) or ARGV[1] ~= '1' then return end
  work = work + 2 * #ids
  if kind == 'reserved' and #ids > 1 then
    split_group(PREFIX, name, member, STEP) -- what was there twice is so once
  elseif redis.call('ZSCORE', PREFIX .. queue, member) then
    take_apart(PREFIX .. queue, member, STEP, bad)
  end
end

local looked = 0
for k = 4, #ARGV, 2 do
  if looked > 0 and work >= MOST then break end
  if ARGV[k] ~= '' then
    queue = ARGV[k]
    kind, name = string.match(queue, '^(%l+):(.*)$')
  end
  look(ARGV[k + 1])
  looked = looked + 1
end
return { looked, wrong }
