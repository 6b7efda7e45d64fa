-- Carry out the batch.

local at = 6
while ARGV[at] do at = OPS[ARGV[at]](at + 1) end

flush()
for tube, n in pairs(roused) do
  if n > 0 and not is_paused(tube) then signal(tube, n) end
end
return { answers, earliest < math.huge and math.max(math.ceil((earliest - MS) * 1000), 0) or -1, hints }
