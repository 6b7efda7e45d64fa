-- define_next makes OPS call functions that define more operations, one after the other, as long as it is asked for
-- one that it does not have.
local function define_next(define, ...)
  local rest = { ... }
  setmetatable(OPS, { __index = function(_, name)
    setmetatable(OPS, nil)
    define()
    if rest[1] then define_next(unpack(rest)) end
    return OPS[name]
  end })
end
