-- Which commands the script may not run for want of permission. It tries them
-- on a key that is not there, and leaves none.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV     none
--
-- Reply: the names of the commands

local key = KEYS[1] .. 'none'
local tries = { -- '=' is the key once more
  'TIME', 'SET 0', 'GET', 'STRLEN', 'GETRANGE 0 1', 'SETRANGE 0 x', 'EXISTS', 'DEL', 'MSET 0', 'MGET', 'PERSIST', 'RENAME =', 'APPEND x', 'DEL',
  'HSETNX a 0', 'HSET a 0', 'HGET a', 'HMGET a', 'HGETALL', 'HINCRBY a 1', 'HEXISTS a', 'HLEN', 'HKEYS', 'HSCAN 0', 'HDEL a', 'DEL',
  'ZADD 0 a', 'ZCARD', 'ZCOUNT 0 1', 'ZSCORE a', 'ZRANGE 0 0', 'ZREVRANGE 0 0', 'ZREVRANGEBYLEX + -', 'ZRANGEBYSCORE 0 1',
  'ZPOPMIN', 'ZREMRANGEBYRANK 0 0', 'ZREM a', 'DEL', 'RPUSH a', 'LPOP', 'DEL',
}
local missing, seen = {}, {}
for _, try in ipairs(tries) do
  local words = {}
  for word in string.gmatch(try, '%S+') do words[#words + 1] = word == '=' and key or word end
  if words[1] ~= 'TIME' then table.insert(words, 2, key) end
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err and not seen[words[1]]
    and (string.find(reply.err, 'NOPERM') or string.find(reply.err, 'permission') or string.find(reply.err, "can't run this command")) then
    seen[words[1]] = true
    missing[#missing + 1] = words[1]
  end
end
return missing
