-- The beginning of every check. A repair relies on nobody else changing anything, from its
-- first call to its last. So it fails if an instance has sent a heartbeat in the last
-- HEARTBEAT_TIMEOUT ms.

local PREFIX, REPAIR, STEP, MOST = KEYS[1], ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local KEY_LENGTH = #PREFIX + ID_LENGTH
local call = redis.call

if REPAIR then
  local now = call('TIME')[1] * 1000
  if call('ZCOUNT', PREFIX .. 'instances', string.format('%.0f', now - HEARTBEAT_TIMEOUT), string.format('%.0f', now + HEARTBEAT_TIMEOUT)) > 0 then
    return redis.error_reply('INSTANCES are running')
  end
  call('DEL', PREFIX .. 'none') -- a write that needs no memory allows others when memory is full
end

-- work is about how much has been done, in calls of Redis; the call can do MOST. wrong is texts
-- about faults.
local work, wrong = 0, {}
local function exhausted() return work >= MOST end
local function note(text) wrong[#wrong + 1] = text end
local function id_text(key) return string.sub(key, -ID_LENGTH) end

