-- Which of these jobs are not where their records say, or in two places. It
-- changes nothing unless it is to repair: then they are put right, as
-- places.lua says.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much the call may do, see alone.lua
-- ARGV[4…] ids, whole keys
--
-- Reply: of how many of these jobs, from the first on, it has looked at, which is one
-- at least; and a text for each that is wrong

local listed = {} -- tubes
local function is_listed(tube)
  if listed[tube] == nil then
    work = work + 1
    listed[tube] = redis.call('ZSCORE', PREFIX .. 'tubes', tube) and true
  end
  return listed[tube]
end

local function look(id, raw)
  local letter, pri, tube = parse(raw)
  if not QUEUE[letter] then
    wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': its record is broken'
    return
  end
  if not is_settled(letter, tube, (in_queues(id, tube))) then
    local found, score, run, group, whose = places(id, tube, pri)
    if not fits(letter, tube, found) then
      misplaced(id, letter, tube, found)
      if ARGV[1] == '1' then put_right(id, letter, tube, pri, found, score, run, group, whose) end
      return
    end
  end
  if not is_listed(tube) then
    wrong[#wrong + 1] = 'job ' .. string.sub(id, -16) .. ': its tube ' .. tube .. ' is not listed'
    if ARGV[1] == '1' then
      list(tube)
      listed[tube] = true
    end
  end
end

local looked = 0
for k = 4, #ARGV do
  if looked > 0 and work >= MOST then break end
  local raw = redis.call('GETRANGE', ARGV[k], '0', '241')
  looked, work = looked + 1, work + 1
  if #raw > 41 then
    look(ARGV[k], raw)
  elseif raw ~= '' then
    wrong[#wrong + 1] = 'job ' .. string.sub(ARGV[k], -16) .. ': its record is broken'
  end
end
return { looked, wrong }
