-- How every check begins. A repair relies on nobody else changing anything, from its first
-- call to its last, so it fails if an instance has given a heartbeat in the last HEARTBEAT_TIMEOUT ms.

local PREFIX, REPAIR, STEP, MOST = KEYS[1], ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local KEY_LENGTH = #PREFIX + ID_LENGTH
local call = redis.call

if REPAIR then
  local now = call('TIME')[1] * 1000
  if call('ZCOUNT', PREFIX .. 'instances', string.format('%.0f', now - HEARTBEAT_TIMEOUT), string.format('%.0f', now + HEARTBEAT_TIMEOUT)) > 0 then
    return redis.error_reply('INSTANCES are running')
  end
  call('DEL', PREFIX .. 'none') -- a write that needs no memory allows others where Redis has none left
end

-- work is how much has been done, in calls of Redis, about; the call may do MOST. wrong are
-- texts about what is wrong.
local work, wrong = 0, {}
local function exhausted() return work >= MOST end
local function note(text) wrong[#wrong + 1] = text end
local function id_text(key) return string.sub(key, -ID_LENGTH) end

