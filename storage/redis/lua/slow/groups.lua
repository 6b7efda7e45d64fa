-- What the other files here need of groups/, which is defined when a call needs it. Everything about
-- groups is left out while the key limited is not there: then limited is nil.

local define_groups
local GROUPS -- what that has returned

-- groups returns the functions of groups/.
function SLOW.groups()
  GROUPS = GROUPS or define_groups()
  return GROUPS
end

-- group_of returns the group of a job; nil if it has none. A job that is about to enter a tube must
-- have j.group already, false for none.
local function group_of(j)
  if j.group == nil and limited and j.has_metadata then j.group = SLOW.read_group(j) end
  return j.group or nil
end

-- ready_in_groups returns how many jobs with groups are ready in a tube.
local function ready_in_groups(tube)
  return limited and SLOW.groups().ready_in(tube) or 0
end

-- left must be called when a job has left the place of its state; for a ready job with a group,
-- before it has.
local function left(j)
  if limited then SLOW.groups().left(j, group_of(j)) end
  if j.has_metadata then SLOW.left_batch(j) end
end

-- grouped-delete: deletes jobs with groups that connections of this instance hold, see groups/delete.lua
OPERATIONS['grouped-delete'] = function(i) return SLOW.groups().delete_held(i) end
