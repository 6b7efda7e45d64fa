-- What the other files here use most, once more: a function of Lua uses 60 locals from outside at
-- most.

local call, sub, format, concat = redis.call, string.sub, string.format, table.concat
local PREFIX, INSTANCE = KEYS[1], ARGV[1]
local READY, COUNTS, LEASES = PREFIX .. 'ready:', PREFIX .. 'counts', PREFIX .. 'leases'
local OPERATIONS = SLOW.operations
