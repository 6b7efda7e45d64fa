-- Wakes the instances that wait for jobs, records the call, and ends it.

-- Of the instances on which clients wait for a job of a tube, as many are woken as jobs have become
-- ready, those first that have waited longest. An instance is woken once, and then registers
-- again. The wake-ups of this instance are in the reply.
local own_wakeups, own_count = '', 0
for tube, n in pairs(wakeups) do
  local waiting = PREFIX .. 'waiting:' .. tube
  if n > 0 and call('EXISTS', waiting) == 1 and not is_paused(tube) then
    local woken = call('ZPOPMIN', waiting, format('%d', n))
    for k = 1, #woken, 2 do
      if woken[k] == INSTANCE then
        local jobs = n - #woken / 2 + 1 -- one for each of the others
        own_wakeups, own_count = own_wakeups .. #tube .. ':' .. tube .. jobs .. ';', own_count + 1
      else
        call('RPUSH', PREFIX .. 'wakeups:' .. woken[k], tube)
      end
    end
  end
end

local flags = (sum.changed and 1 or 0) + (sum.refused and 2 or 0) + (sum.keeping and 4 or 0)
local text = flags .. ';' .. (sum.refused or '')
  .. (sum.puts > 0 and format('%.0f;', first_number) or '0;')
  .. (sum.earliest < math.huge and format('%.0f;', math.max((sum.earliest - MS) * 1000 + 1, 0)) or '-1;')
  .. (own_count > 0 and own_count .. ';' .. own_wakeups or '0;')
  .. concat(answers) .. (sum.noted and SLOW.noted_text() or '')
local ids = concat(taken, ',')
if sum.changed then call('SET', BATCH, NUMBER .. ';' .. #ids .. ';' .. ids .. '0;0;' .. text) end
records[1], records[2], records[3] = clock[1] .. ';' .. clock[2] .. ';' .. text, ids, concat(sizes)
return records
