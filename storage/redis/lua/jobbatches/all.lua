-- The parts of jobbatches/, in the order in which they need each other.

--include data: jobbatches
--include jobbatches/records.lua
--include jobbatches/members.lua
--include jobbatches/put.lua

-- What no put and no end of a member needs is defined when it is asked for.
local function define_commands()
--include jobbatches/commands.lua
--include jobbatches/settle.lua
end
setmetatable(COMMANDS, { __index = function(_, name)
  setmetatable(COMMANDS, nil)
  define_commands()
  return COMMANDS[name]
end })
return B
