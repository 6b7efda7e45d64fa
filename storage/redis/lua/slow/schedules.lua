-- Schedules. Their operations, in schedules/, are defined when a batch needs them. So is jobbatches/.

local function define_schedules()
--include data: schedules
--include schedules/records.lua
--include schedules/due.lua
end
local SCHEDULES -- what that has returned

function define_job_batches()
--include jobbatches/all.lua
end

-- schedules: carries out an operation on schedules
--
-- ARGV    'schedules', the name of the operation, and its arguments: see schedules/
OPERATIONS['schedules'] = function(i)
  SCHEDULES = SCHEDULES or define_schedules()
  return SCHEDULES[ARGV[i]](i + 1)
end

-- REPORT_AGAIN is after how many ms it is reported again that a record is due.
local REPORT_AGAIN = 1000

-- note_dues notes when a record is due that nobody has claimed, or a claim ends, by the sorted sets of
-- these. It returns whether that is now.
function OPS.note_dues(dues, claims)
  local first = math.huge
  for _, set in ipairs({ dues, claims }) do
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

-- note_schedules does that for schedules.
function OPS.note_schedules() return OPS.note_dues('schedule-dues', 'schedule-claims') end
