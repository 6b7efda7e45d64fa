-- Named records: schedules and batches of jobs. What is in schedules/ and jobbatches/ is defined when a batch of
-- operations needs it.

--include data: named

local function define_schedules()
--include schedules/records.lua
end
local SCHEDULES -- what that has returned

function define_job_batches()
--include jobbatches/all.lua
end

-- schedules: carries out an operation on schedules
--
-- ARGV    'schedules', the name of the operation, and its arguments: see schedules/ and named/commands.lua
OPERATIONS['schedules'] = function(i)
  SCHEDULES = SCHEDULES or define_schedules()
  return SCHEDULES[ARGV[i]](i + 1)
end

-- job-batches: carries out an operation on batches of jobs
--
-- ARGV    'job-batches', the name of the operation, and its arguments: see jobbatches/ and named/commands.lua
OPERATIONS['job-batches'] = function(i)
  return SLOW.job_batches().commands[ARGV[i]](i + 1)
end

-- REPORT_AGAIN is after how many ms it is reported again that a record is due.
local REPORT_AGAIN = 1000

-- note_dues notes when a record of a kind, one of NAMED, is due that nobody has claimed, or a claim ends. It returns
-- whether that is now.
function SLOW.note_dues(kind)
  local first = math.huge
  for _, set in ipairs({ '-dues', '-claims' }) do
    local at = call('ZRANGE', PREFIX .. kind .. set, '0', '0', 'WITHSCORES')[2]
    if at then first = math.min(first, tonumber(at)) end
  end
  if first <= NOW then
    note_due(NOW + REPORT_AGAIN)
  elseif first < math.huge then
    note_due(first)
  end
  return first <= NOW
end
