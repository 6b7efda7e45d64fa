-- Tubes: a tube is there while an instance attends it or a job is in it, that
-- is, while more jobs were put than deleted.

local OPS = {} -- by their names; and functions for the batch

local function say(text)
  said[#said + 1] = text
end

local function answer(n)
  say(format('%.0f;', n))
end

local function answer_text(text)
  say(#text .. ':' .. text)
end

local function due_at(at)
  if at < sum.earliest then sum.earliest = at end
end

-- count_up adds to a counter and returns what it is now.
local function count_up(key, field, by)
  return call('HINCRBY', key, field, format('%.0f', by))
end

-- Whether any instance attends a tube is looked up once in a batch.
local attended = {}
local function is_attended(tube)
  if attended[tube] == nil then
    attended[tube] = call('EXISTS', PREFIX .. 'attending:' .. tube) == 1
  end
  return attended[tube]
end

local function open_tube(tube)
  if not call('ZSCORE', PREFIX .. 'tubes', tube) then
    call('ZADD', PREFIX .. 'tubes', format('%.0f', count_up(COUNTS, 'opened', 1)), tube)
  end
end
OPS.open_tube = open_tube

-- drop_unused forgets a tube that nothing keeps: no instance attends it, and
-- as many jobs were deleted as put. The last tube of the list takes its place
-- there.
local function drop_unused(tube)
  if tube == 'default' or is_attended(tube) then return end
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes')
  if (have[1] or '0') ~= (have[2] or '0') then return end
  local place = call('ZSCORE', PREFIX .. 'tubes', tube)
  if not place then return end
  local last = call('ZREVRANGE', PREFIX .. 'tubes', '0', '0')[1]
  call('ZREM', PREFIX .. 'tubes', tube)
  if last ~= tube then call('ZADD', PREFIX .. 'tubes', place, last) end
  call('DEL', PREFIX .. 'tube:' .. tube, PREFIX .. 'waiting:' .. tube)
  call('HDEL', PREFIX .. 'paused', tube)
  call('ZREM', PREFIX .. 'timers', 'd:' .. tube, 'p:' .. tube)
  paused[tube] = false
end

-- flush writes what has changed in the counters of tubes so far. A tube that
-- has its first jobs may be one that nobody attends, and so not be there yet.
local function flush()
  for tube, by in pairs(totals) do
    if count_up(PREFIX .. 'tube:' .. tube, 'total', by) == by then open_tube(tube) end
    totals[tube] = nil
  end
  for tube, by in pairs(deletes) do
    count_up(PREFIX .. 'tube:' .. tube, 'deletes', by)
    deletes[tube] = nil
  end
  for tube, by in pairs(joined) do
    count_up(PREFIX .. 'tube:' .. tube, 'joined', by)
    joined[tube] = nil
  end
  for tube, by in pairs(joined_urgent) do
    count_up(PREFIX .. 'tube:' .. tube, 'joined-urgent', by)
    joined_urgent[tube] = nil
  end
end

-- put_in and gone_from are for when totals and deletes have grown. A tube that
-- nobody attends begins and ends with its jobs, at once, so that the order of
-- tubes comes out right.
function OPS.put_in(tube)
  if not is_attended(tube) then flush() end
end

function OPS.gone_from(tube)
  if not is_attended(tube) then
    flush()
    drop_unused(tube)
  end
end

-- delete_each deletes those jobs at ARGV[from … upto] that are there, says
-- which, and returns how many.
function OPS.delete_each(tube, from, upto)
  local each, found = {}, 0
  for k = from, upto do
    local is = call('DEL', ARGV[k])
    each[#each + 1], found = is, found + is
    if call('ZREM', RESERVED, ARGV[k]) == 0 and run_by_bytes(GROUPS, ARGV[k], partitions) then
      sum.grouped = sum.grouped - is
    end
    call('ZREM', READY .. tube, ARGV[k])
  end
  say(format('0;%d:', #each) .. concat(each))
  return found
end

-- drop_lost leaves of what first_ready has found the jobs that have a record, all
-- as single ones. Their records are behind the first base ones then. The urgent ones
-- of the others are no longer counted.
function OPS.drop_lost(tube, f, base)
  local scores = call('ZRANGE', READY .. tube, '0', format('%d', #f.names - 1), 'WITHSCORES')
  local left, ones = {}, {}
  for at = #records, base + 1, -1 do records[at] = nil end
  for k, name in ipairs(f.names) do
    local first = tonumber(sub(name, LENGTH - 15, LENGTH))
    for i = 0, f.sizes[k] - 1 do
      local key = key_of(first + i * partitions)
      local record = call('GET', key)
      if record then
        left[#left + 1], ones[#ones + 1], records[#records + 1] = key, 1, record
      elseif tonumber(scores[2 * k]) < URGENT_BELOW then
        sum.urgent = sum.urgent - 1
      end
    end
  end
  f.found, f.keys, f.names, f.sizes, f.ttrs, f.own, f.urgent = #left, left, left, ones, {}, {}, 0
end

-- count writes the counters over all tubes that only what is here changes.
function OPS.count()
  for _, name in ipairs({ 'delayed', 'buried', 'timeouts' }) do
    if sum[name] ~= 0 then count_up(COUNTS, name, sum[name]) end
  end
end
