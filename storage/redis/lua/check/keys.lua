-- Checks which of these job keys, in keys:TUBE, no job has. With repair they are removed; else
-- nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4]  tube
-- ARGV[5…] keys, each followed by the id of its job
--
-- Reply: how many of these were checked, from the first one on, at least one; and a text for
-- each fault

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include data: metadata

local tube, done = ARGV[4], 0
for k = 5, #ARGV, 2 do
  if done > 0 and exhausted() then break end
  local key, job = ARGV[k], PREFIX .. string.format(ID_FORMAT, tonumber(ARGV[k + 1]) or 0)
  if call('HGET', PREFIX .. 'keys:' .. tube, key) == ARGV[k + 1] then
    local raw = call('GETRANGE', job, '0', LONGEST_NAME)
    local f = #raw >= NAME_AT - 1 and string.byte(raw) >= 97 and read_metadata(job)
    if not f or f.key ~= key or read_header(raw).tube ~= tube then
      note('keys:' .. tube .. ' has ' .. key .. ': job ' .. ARGV[k + 1] .. ' does not have that key')
      if REPAIR then call('HDEL', PREFIX .. 'keys:' .. tube, key) end
    end
  end
  done, work = done + 1, work + 4
end
return { done, wrong }
