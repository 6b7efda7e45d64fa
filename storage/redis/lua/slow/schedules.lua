-- Schedules. Their operations, in schedules/, are defined when a batch needs them.

local function define_schedules()
--include data: schedules
--include schedules/records.lua
--include schedules/due.lua
end
local SCHEDULES -- what that has returned

-- schedules: carries out an operation on schedules
--
-- ARGV    'schedules', the name of the operation, and its arguments: see schedules/
OPS['schedules'] = function(i)
  SCHEDULES = SCHEDULES or define_schedules()
  return SCHEDULES[ARGV[i]](i + 1)
end

-- REPORT_AGAIN is after how many ms it is reported again that a schedule is due.
local REPORT_AGAIN = 1000

-- note_schedules notes when a schedule is due that nobody has claimed, or a claim ends. It returns
-- whether that is now.
function OPS.note_schedules()
  local first = math.huge
  for _, set in ipairs({ 'schedule-dues', 'schedule-claims' }) do
    local at = call('ZRANGE', PREFIX .. set, '0', '0', 'WITHSCORES')[2]
    if at then first = math.min(first, tonumber(at)) end
  end
  if first <= NOW then
    note_due(NOW + REPORT_AGAIN)
  elseif first < math.huge then
    note_due(first)
  end
  return first <= NOW
end
