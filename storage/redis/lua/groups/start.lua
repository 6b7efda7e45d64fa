-- Groups, rates and pauses of groups, for the tubes that have them. keys.md describes the keys.
--
-- A lane is the jobs of one group in one tube; the jobs of the tube without a group are the plain
-- lane. A lane is live while it has ready or reserved jobs. It is eligible if one of its jobs may
-- start now: then it is in eligible:TUBE, whose first member is the next lane. Each operation that
-- changes a lane marks it dirty. update_index computes anew what the index says of dirty lanes, before
-- anything reads it and at the end of the call. Reserved jobs are counted from lane-reserved:TUBE. A
-- lane with one job that is ready or reserved is mostly much simpler, see lone.lua.

local call, sub, format, concat = redis.call, string.sub, string.format, table.concat
local PREFIX, READY, LONE_READY, COUNTS = KEYS[1], KEYS[1] .. 'ready:', KEYS[1] .. 'lone-ready:', KEYS[1] .. 'counts'

-- G has the functions that other files need.
local G = {}
