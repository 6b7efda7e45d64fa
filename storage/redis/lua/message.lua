-- Message: a question of an instance to others, or an answer. It is put into the lists of their
-- wake-ups, where no tube has such a name. An instance that Redis does not know gets none, so no
-- list is left behind.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  the message
-- ARGV[2…] names of instances
--
-- Reply: the names of those that Redis knows

local PREFIX, reached = KEYS[1], {}
redis.call('DEL', PREFIX .. 'none') -- a write that needs no memory allows the next one when memory is full
for k = 2, #ARGV do
  if redis.call('ZSCORE', PREFIX .. 'instances', ARGV[k]) then
    redis.call('RPUSH', PREFIX .. 'wakeups:' .. ARGV[k], ARGV[1])
    reached[#reached + 1] = ARGV[k]
  end
end
return reached
