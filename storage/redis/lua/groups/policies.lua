-- What follows when a policy is set that limits which jobs may start, or no longer does.

-- concerns returns whether the policy with a name, of a tube or a pattern, is for a tube.
local function concerns(name, tube)
  return name == tube or sub(name, -1) == '*' and sub(tube, 1, #name - 1) == sub(name, 1, -2)
end

-- note_limiting notes which policies limit starts, of a program that did not know.
function G.note_limiting()
  for _, hash in ipairs({ 'policies', 'prefixes' }) do
    local all = call('HGETALL', PREFIX .. hash)
    for k = 1, #all, 2 do
      if limits_starts(all[k + 1]) then call('HSET', PREFIX .. 'limit-policies', all[k], '') end
    end
  end
  set_flags()
end

local limits -- whether the policy limits starts, or did before

-- policy_changes is called before a policy changes.
function G.policy_changes(name, starts)
  G.forget_tubes()
  local all = PREFIX .. 'limit-policies'
  local n = starts and call('HSET', all, name, '') or not starts and call('HDEL', all, name)
  limits = starts or n == 1
  if n == 1 then set_flags() end
  for _, tube in ipairs(limits and call('HKEYS', PREFIX .. 'group-tubes') or {}) do
    if concerns(name, tube) then call('HSET', PREFIX .. 'group-tubes', tube, '') end
  end
end

-- SCAN_NOW is how many groups are looked at again at once, when a policy changes; the timers of their
-- tubes continue.
local SCAN_NOW = 500

-- policy_changed is called after that. The tubes that it concerns have groups, or clients wait there.
function G.policy_changed(name)
  if not limits then return end
  local left, done = SCAN_NOW, {}
  for _, set in ipairs({ 'group-tubes', 'limited-waits' }) do
    for _, tube in ipairs(call('HKEYS', PREFIX .. set)) do
      if set == 'limited-waits' and call('EXISTS', PREFIX .. 'waiting:' .. tube) == 0 then call('HDEL', PREFIX .. set, tube) end
      if concerns(name, tube) and not done[tube] then
        done[tube] = true
        begin_rescan(tube, left)
        left = 0
      end
    end
  end
end
