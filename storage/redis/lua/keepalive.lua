-- Keepalive: a heartbeat of an instance beside a call that takes long. It changes nothing else.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  name of the instance
-- ARGV[2]  how many ms are added to the clock; 0 except in tests
--
-- Reply: 1; or the error LOST if Redis does not know the instance, or others have declared it
-- dead

--include data: call
local PREFIX, INSTANCE = KEYS[1], ARGV[1]
local call = redis.call

local last = call('GETRANGE', PREFIX .. 'batch:' .. INSTANCE, '0', '15')
if last == '' or last == 'dead' then
  return redis.error_reply(LOST .. ' there is no such instance, or it was declared dead')
end
call('DEL', PREFIX .. 'none') -- a write that needs no memory allows the next one when memory is full
local clock = call('TIME')
local now = math.floor(clock[1] * 1000 + clock[2] / 1000) + ARGV[2]
local last = call('ZSCORE', PREFIX .. 'instances', INSTANCE) -- only 'beat' moves it back, when the clock was set back
call('ZADD', PREFIX .. 'instances', 'XX', string.format('%.0f', math.max(now, (last or 0) + 1)), INSTANCE)
return 1
