-- Before a check. A repair relies on nobody else changing anything, from its first
-- call to its last. SILENCE is for how many ms an instance must have given no sign of
-- life.

if ARGV[1] == '1' then
  local since = string.format('%.0f', redis.call('TIME')[1] * 1000 - SILENCE)
  if redis.call('ZCOUNT', KEYS[1] .. 'instances', since, '+inf') > 0 then
    return redis.error_reply('INSTANCES are running')
  end
end

-- How much has been done, in calls of Redis, about; and what is wrong.
local MOST, work, wrong = tonumber(ARGV[3]), 0, {}

