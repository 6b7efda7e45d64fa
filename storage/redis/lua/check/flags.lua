-- Checks which tubes are said to have jobs with groups, and have none; and whether it is known which
-- policies limit the starts of jobs, and which say something about records of ended jobs. With repair this is corrected; else nothing is changed.
--
-- KEYS[1]  prefix of every key of the partition
-- ARGV[1]  1 to repair, else 0
-- ARGV[2]  number of partitions
-- ARGV[3]  how much work the call can do, see start.lua
--
-- Reply: 1; and a text for each fault

--include data: keys
--include data: heartbeat-timeout
--include check/start.lua
--include shared/limits.lua

for _, tube in ipairs(call('HKEYS', PREFIX .. 'group-tubes')) do
  if call('EXISTS', PREFIX .. 'lane-jobs:' .. tube, PREFIX .. 'lane-reserved:' .. tube, PREFIX .. 'lone:' .. tube) == 0 then
    note('group-tubes has ' .. tube .. ', which has no jobs with groups')
    if REPAIR then call('HDEL', PREFIX .. 'group-tubes', tube) end
  elseif REPAIR then
    call('HSET', PREFIX .. 'group-tubes', tube, '') -- the limits of its policies are read again
  end
end

local limiting = {}
for _, hash in ipairs({ 'policies', 'prefixes' }) do
  local all = call('HGETALL', PREFIX .. hash)
  for k = 1, #all, 2 do
    if limits_starts(all[k + 1]) then limiting[all[k]] = true end
  end
end
for _, name in ipairs(call('HKEYS', PREFIX .. 'limit-policies')) do
  if not limiting[name] then
    note('limit-policies has ' .. name .. ', which limits nothing')
    if REPAIR then call('HDEL', PREFIX .. 'limit-policies', name) end
  end
  limiting[name] = nil
end
for name in pairs(limiting) do
  note('limit-policies lacks ' .. name)
  if REPAIR then call('HSET', PREFIX .. 'limit-policies', name, '') end
end

local g = call('EXISTS', PREFIX .. 'group-tubes') == 1 and 'g' or ''
local flags = g .. (call('EXISTS', PREFIX .. 'limit-policies') == 1 and 'p' or '')
local have = call('GET', PREFIX .. 'limited') or ''
local generation = string.match(have, '%d*$')
if string.sub(have, 1, #have - #generation) ~= flags then
  note('limited is wrong')
  if REPAIR and flags ~= '' then call('SET', PREFIX .. 'limited', flags .. generation) end
  if REPAIR and flags == '' then call('DEL', PREFIX .. 'limited') end
end

-- keep_text returns schema.KeepText of a policy.
local function keep_text(text)
  local keep, most = string.match(' ' .. text, ' keep:(%d+)'), string.match(' ' .. text, ' keep%-bytes:(%d+)')
  return (keep or most) and (keep or '-') .. ' ' .. (most or '-') or ''
end

local keeps = {}
for _, hash in ipairs({ 'policies', 'prefixes' }) do
  local all = call('HGETALL', PREFIX .. hash)
  for k = 1, #all, 2 do keeps[all[k]] = keep_text(all[k + 1]) end
end
for _, name in ipairs(call('HKEYS', PREFIX .. 'keep-policies')) do keeps[name] = keeps[name] or '' end
for name, text in pairs(keeps) do
  if (call('HGET', PREFIX .. 'keep-policies', name) or '') ~= text then
    note('keep-policies is wrong about ' .. name)
    if REPAIR and text ~= '' then call('HSET', PREFIX .. 'keep-policies', name, text) end
    if REPAIR and text == '' then call('HDEL', PREFIX .. 'keep-policies', name) end
  end
end
if call('EXISTS', PREFIX .. 'keep-policies') ~= call('EXISTS', PREFIX .. 'keeping') then
  note('keeping is wrong')
  if REPAIR and call('EXISTS', PREFIX .. 'keep-policies') == 1 then call('SET', PREFIX .. 'keeping', '1') end
  if REPAIR and call('EXISTS', PREFIX .. 'keep-policies') == 0 then call('DEL', PREFIX .. 'keeping') end
end
return { 1, wrong }
