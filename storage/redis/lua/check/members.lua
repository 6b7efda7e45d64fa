-- Which of these members of a queue are no job of the tube. It changes nothing
-- unless it is to repair: then it takes them out.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  the queue, a key behind the prefix: ready:TUBE, delayed:TUBE,
--          buried:TUBE or reserved:INST
-- ARGV[4…] ids, whole keys, runs and groups
--
-- Reply: a text for each that is wrong

local PREFIX, STEP, queue, wrong = KEYS[1], tonumber(ARGV[2]), ARGV[3], {}
local kind, name = string.match(queue, '^(%l+):(.*)$')

-- what_of says what is wrong with a job in the queue, by itself or in a run or
-- group. Of a group some may have been deleted.
local function what_of(id, in_run)
  local raw = ''
  if string.sub(id, 1, #PREFIX) == PREFIX then raw = redis.call('GETRANGE', id, '0', '241') end
  if raw == '' and kind == 'reserved' and in_run then return nil end
  if raw == '' then return 'there is no such job' end
  if kind ~= 'reserved' and string.sub(raw, 43, 42 + (string.byte(raw, 42) or 0)) ~= name then
    return 'the job is of another tube'
  end
  if in_run and redis.call('ZSCORE', PREFIX .. queue, id) then return 'it is in a run and by itself' end
end

for k = 4, #ARGV do
  local member, bad, ids = ARGV[k], {}, nil
  if redis.call('ZSCORE', PREFIX .. queue, member) then
    ids = (kind == 'ready' or kind == 'reserved') and keys_of(member, STEP) or { member }
    for _, id in ipairs(ids) do
      bad[id] = what_of(id, #ids > 1)
      if bad[id] then wrong[#wrong + 1] = queue .. ' has ' .. string.gsub(id, '^.*:', '') .. ': ' .. bad[id] end
    end
  end
  if next(bad) and ARGV[1] == '1' then
    if kind == 'reserved' and #ids > 1 then
      split_group(PREFIX, name, member, STEP) -- what was there twice is so once
    else
      take_apart(PREFIX .. queue, member, STEP, bad)
    end
  end
end
return wrong
