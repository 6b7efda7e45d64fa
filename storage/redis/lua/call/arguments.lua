-- What the arguments say, and the names of the most used keys.

local RECORDS_FROM = 3 -- the records come after this index of the reply

local PREFIX, INSTANCE, NUMBER, OPTIONS = KEYS[1], ARGV[1], ARGV[2], ARGV[5]
local CACHED_FROM = tonumber(ARGV[6])
local KEY_LENGTH = #PREFIX + ID_LENGTH -- of the key of a job

local call, sub, format, concat = redis.call, string.sub, string.format, table.concat
local READY, BATCH, COUNTS = PREFIX .. 'ready:', PREFIX .. 'batch:' .. INSTANCE, PREFIX .. 'counts'
local RESERVED, LEASE_SETS, LEASES = PREFIX .. 'reserved:' .. INSTANCE, PREFIX .. 'groups:' .. INSTANCE, PREFIX .. 'leases'

local partitions, partition, least, ahead, step = 1, 0, 0, 0, 0
local void, registering, largest_put, staged = false, false, nil, 0
local LEASE_SET_FROM, LONE_SET_FROM, BUDGET = 16, 4, 1048576
if OPTIONS ~= '' then
  local option = {}
  for name, value in string.gmatch(OPTIONS, '(%l+)=(%-?%d+)') do option[name] = tonumber(value) end
  partitions, partition, least = option.partitions or 1, option.number or 0, option.least or 0
  ahead, step = option.ahead or 0, option.step or 0
  void, registering, largest_put = option.void == 1, option.register == 1, option.largest
  staged = option.staged or 0
  LEASE_SET_FROM, LONE_SET_FROM, BUDGET, LARGE = option.leaseset or LEASE_SET_FROM, option.leaseset or LONE_SET_FROM, option.budget or BUDGET, option.large or LARGE
  -- Redis lets a script write if its first write needs no memory.
  if option.full then call('DEL', PREFIX .. 'none') end
  if option.memory then call('SETRANGE', PREFIX .. 'none', '0', '') end -- does nothing, but is refused when memory is full
end

