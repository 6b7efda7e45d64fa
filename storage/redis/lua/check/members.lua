-- Which of these members of a queue are no job of the tube. It changes nothing
-- unless it is to repair: then it takes them out.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  the queue, a key behind the prefix: ready:TUBE, delayed:TUBE,
--          buried:TUBE or reserved:INST
-- ARGV[3…] ids, whole keys
--
-- Reply: a text for each that is wrong

local PREFIX, queue, wrong = KEYS[1], ARGV[2], {}
local kind, name = string.match(queue, '^(%l+):(.*)$')
for k = 3, #ARGV do
  local id, what = ARGV[k], nil
  if redis.call('ZSCORE', PREFIX .. queue, id) then
    local raw = ''
    if string.sub(id, 1, #PREFIX) == PREFIX then raw = redis.call('GETRANGE', id, '0', '241') end
    if raw == '' then
      what = 'there is no such job'
    elseif kind ~= 'reserved' and string.sub(raw, 43, 42 + (string.byte(raw, 42) or 0)) ~= name then
      what = 'the job is of another tube'
    end
  end
  if what then
    wrong[#wrong + 1] = queue .. ' has ' .. string.gsub(id, '^.*:', '') .. ': ' .. what
    if ARGV[1] == '1' then redis.call('ZREM', PREFIX .. queue, id) end
  end
end
return wrong
