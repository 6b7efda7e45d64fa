-- What is defined late. Lua defines functions anew in each call of the script, and that costs as much as the operations: all of
-- slow/ some 60 µs, tagged/ and groups/ as much again (see Figures in main.lua). Nearly no call needs more than one part, and
-- which one is only known when a function is looked up. So a lookup that finds nothing in SLOW or OPERATIONS defines one more
-- part and looks again: first what jobs with tags, policies and leases need, then those with checkpoints, then operations on many jobs, then groups.
--
-- A name that no file defines would define everything, and only then fail. So TestNamesInTables and TestWords compare the names
-- that are used, in Lua and in Go, with those that are defined.
local parts = { define_tagged, define_reports, define_bulk, SLOW.groups }
local function define_more(functions, name)
  local define = table.remove(parts, 1)
  if not define then error('no file defines ' .. name) end
  define()
  return functions[name]
end
setmetatable(SLOW, { __index = define_more })
setmetatable(OPERATIONS, { __index = define_more })
