-- Writes the changes of the call to the counters. A tube whose first jobs were put may not
-- exist yet.

for tube, by in pairs(totals) do
  if call('HINCRBY', PREFIX .. 'tube:' .. tube, 'total', format('%d', by)) == by then
    SLOW = SLOW or slow_functions()
    SLOW.open_tube(tube)
  end
end
for tube, by in pairs(bytes) do
  if by ~= 0 then call('HINCRBY', PREFIX .. 'tube:' .. tube, 'bytes', format('%.0f', by)) end
end
for tube, by in pairs(joined) do
  if by ~= 0 then call('HINCRBY', PREFIX .. 'tube:' .. tube, 'joined', format('%d', by)) end
end
for tube, by in pairs(joined_urgent) do
  if by ~= 0 then call('HINCRBY', PREFIX .. 'tube:' .. tube, 'joined-urgent', format('%d', by)) end
end
for tube, by in pairs(sum.lone) do
  if by ~= 0 then call('HINCRBY', PREFIX .. 'tube:' .. tube, 'joined-lone', format('%d', by)) end
end
for tube, by in pairs(deletes) do call('HINCRBY', PREFIX .. 'tube:' .. tube, 'deletes', format('%d', by)) end
if sum.deleted ~= 0 then call('HINCRBY', COUNTS, 'deleted', format('%d', sum.deleted)) end
if sum.urgent ~= 0 then call('HINCRBY', COUNTS, 'urgent', format('%d', sum.urgent)) end
if sum.in_sets ~= 0 then call('HINCRBY', COUNTS, 'grouped', format('%d', sum.in_sets)) end
if SLOW then SLOW.write_slow_counters() end
if limited then -- what comes now can write counters again
  totals, bytes, joined, joined_urgent, deletes, sum.lone = {}, {}, {}, {}, {}, {}
end

