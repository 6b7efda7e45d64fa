-- The parts of groups/, in the order in which they need each other.

--include groups/start.lua
--include data: limits
--include groups/tubes.lua
--include groups/rates.lua
--include groups/lanes.lua
--include groups/lone.lua
--include groups/index.lua
--include groups/moves.lua
--include groups/take.lua
--include groups/due.lua
--include groups/put.lua
--include groups/delete.lua
--include groups/commands.lua
--include groups/figures.lua
--include shared/limits.lua
--include groups/policies.lua
return G
