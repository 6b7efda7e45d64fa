-- Locals that the other files here use most, defined again: a Lua function can have at most 60
-- upvalues.

local call, sub, format, concat = redis.call, string.sub, string.format, table.concat
local PREFIX, INSTANCE = KEYS[1], ARGV[1]
local READY, COUNTS, LEASES = PREFIX .. 'ready:', PREFIX .. 'counts', PREFIX .. 'leases'
