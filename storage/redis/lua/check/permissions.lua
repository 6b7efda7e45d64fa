-- Finds the commands that scripts cannot run, because they are forbidden to the user or
-- renamed. It tries them on a key that does not exist, and leaves none.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV     none
--
-- Reply: the names of the commands that have failed, each followed by the error. If DEL has
-- failed nothing else was tried, because it would leave a key

local key = KEYS[1] .. 'none'
local tries = { -- '=' stands for the key again
  'DEL', 'TIME', 'SET 0', 'GET', 'STRLEN', 'GETRANGE 0 1', 'SETRANGE 0 x', 'EXISTS', 'DEL', 'MSET 0', 'MGET', 'PERSIST', 'RENAME =', 'APPEND x', 'DEL',
  'HSET a 0', 'HSETNX a 0', 'HGET a', 'HMGET a', 'HGETALL', 'HINCRBY a 1', 'HEXISTS a', 'HLEN', 'HKEYS', 'HSCAN 0', 'HDEL a', 'DEL',
  'ZADD 0 a', 'ZCARD', 'ZCOUNT 0 1', 'ZSCORE a', 'ZRANK a', 'ZRANGE 0 0', 'ZREVRANGE 0 0', 'ZREVRANGEBYLEX + -', 'ZRANGEBYLEX - +', 'ZLEXCOUNT - +', 'ZRANGEBYSCORE 0 1',
  'ZPOPMIN', 'ZREMRANGEBYRANK 0 0', 'ZREM a', 'DEL', 'RPUSH a', 'LRANGE 0 0', 'LPOP', 'DEL',
}
local failed = {}
for n, try in ipairs(tries) do
  local words = {}
  for word in string.gmatch(try, '%S+') do words[#words + 1] = word == '=' and key or word end
  if words[1] ~= 'TIME' then table.insert(words, 2, key) end
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = words[1]
    failed[#failed + 1] = reply.err
    if n == 1 then break end
  end
end
return failed
