-- The parts of jobbatches/, in the order in which they need each other.

--include data: jobbatches
--include jobbatches/records.lua
--include jobbatches/members.lua
--include jobbatches/put.lua
--include jobbatches/commands.lua
--include jobbatches/settle.lua
return B
