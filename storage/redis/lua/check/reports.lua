-- Checks which of these keys about what the holders of jobs have reported belong to no job. With repair they are removed; else
-- nothing is changed. The check of jobs compares the other way.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
-- ARGV[4…] checkpoint:ID and progress:ID, after the prefix
--
-- Reply: how many of these were checked, from the first one on, at least one; and a text for
-- each fault

--include data: keys
--include data: sizes
--include data: record
--include data: heartbeat-timeout
--include check/start.lua
--include data: metadata

-- has_reports returns whether there is a job with that ID whose metadata says that it has such keys.
local function has_reports(id)
  local letter = call('GETRANGE', PREFIX .. id, '0', '0')
  local f = letter >= 'a' and read_metadata(PREFIX .. id)
  return f and f.reports
end

local done = 0
for k = 4, #ARGV do
  if done > 0 and exhausted() then break end
  local key = ARGV[k]
  if not has_reports(string.match(key, ':(.*)')) and call('EXISTS', PREFIX .. key) == 1 then
    note(key .. ': there is no such job that has it')
    if REPAIR then call('DEL', PREFIX .. key) end
  end
  done, work = done + 1, work + 4
end
return { done, wrong }
