-- Tubes: a tube is there while an instance attends it or a job is in it, that
-- is, while more jobs were put than deleted.

local function open_tube(tube)
  if not call('ZSCORE', PREFIX .. 'tubes', tube) then
    call('ZADD', PREFIX .. 'tubes', number('opened'), tube)
  end
end

local function tube_exists(tube)
  return tube == 'default' or call('ZSCORE', PREFIX .. 'tubes', tube)
end

-- drop_unused forgets a tube that nothing keeps. The last tube of the list
-- takes its place there.
local function drop_unused(tube)
  if tube == 'default' or call('EXISTS', PREFIX .. 'attending:' .. tube) == 1 then return end
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes')
  if (have[1] or '0') ~= (have[2] or '0') then return end
  local place = call('ZSCORE', PREFIX .. 'tubes', tube)
  if not place then return end
  local last = call('ZREVRANGE', PREFIX .. 'tubes', 0, 0)[1]
  call('ZREM', PREFIX .. 'tubes', tube)
  if last ~= tube then call('ZADD', PREFIX .. 'tubes', place, last) end
  call('DEL', PREFIX .. 'tube:' .. tube, PREFIX .. 'waiting:' .. tube)
  call('HDEL', PREFIX .. 'paused', tube)
  call('ZREM', PREFIX .. 'timers', 'd:' .. tube, 'p:' .. tube)
  if paused then paused[tube] = nil end
end

-- flush writes what has changed in the counters so far.
local function flush()
  for name, by in pairs(counts) do
    if by ~= 0 then call('HINCRBY', PREFIX .. 'counts', name, by) end
    counts[name] = 0
  end
  for _, tube in ipairs(put_into) do
    -- The first jobs of a tube: it may be one that nobody attends.
    local by = totals[tube]
    if call('HINCRBY', PREFIX .. 'tube:' .. tube, 'total', by) == by then open_tube(tube) end
  end
  for tube, by in pairs(pauses) do call('HINCRBY', PREFIX .. 'tube:' .. tube, 'pauses', by) end
  local emptier = deletes
  for tube, by in pairs(emptier) do call('HINCRBY', PREFIX .. 'tube:' .. tube, 'deletes', by) end
  totals, deletes, pauses, put_into = {}, {}, {}, {}
  local order = {}
  for tube in pairs(emptier) do order[#order + 1] = tube end
  table.sort(order, function(a, b) return deleted_at[a] < deleted_at[b] end)
  for _, tube in ipairs(order) do drop_unused(tube) end
end

-- Whether any instance attends a tube is looked up once in a batch.
local attended = {}
local function is_attended(tube)
  if attended[tube] == nil then
    attended[tube] = call('EXISTS', PREFIX .. 'attending:' .. tube) == 1
  end
  return attended[tube]
end

-- hints are the tubes of which this instance is told at the end.
local hints = {}

-- signal tells up to most of those instances that wait for a job of a tube,
-- the one that waits longest first. It is told once and asks again.
local function signal(tube, most)
  local told = call('ZPOPMIN', PREFIX .. 'waiting:' .. tube, most)
  for k = 1, #told, 2 do
    if told[k] == ME then
      hints[#hints + 1] = tube
    else
      call('RPUSH', PREFIX .. 'mail:' .. told[k], tube)
    end
  end
end
