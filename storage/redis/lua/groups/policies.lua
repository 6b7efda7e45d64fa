-- What follows when a policy is set that limits which jobs may start, or no longer does.

local CLOCK = '' -- stands for the name of a policy, if the clock was set back instead

-- concerns returns whether the policy with a name, of a tube or a pattern, is for a tube.
local function concerns(name, tube)
  return name == CLOCK or name == tube or sub(name, -1) == '*' and sub(tube, 1, #name - 1) == sub(name, 1, -2)
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

-- policy_changes is called before a policy changes. What group-tubes has of the limits becomes outdated.
function G.policy_changes(name, starts)
  G.forget_tubes()
  local all = PREFIX .. 'limit-policies'
  local n = starts and call('HSET', all, name, '') or not starts and call('HDEL', all, name)
  limits = starts or n == 1
  if limits and sub(name, -1) == '*' then
    set_flags(format('%d', (tonumber(generation()) or 0) + 1))
  elseif n == 1 then
    set_flags()
  end
  if limits and call('HEXISTS', PREFIX .. 'group-tubes', name) == 1 then call('HSET', PREFIX .. 'group-tubes', name, '') end
end

-- When the policy of a pattern has changed, the tubes that have groups are looked at in steps, then those
-- in which clients wait. A tube that is used before its turn finds by itself that its limits have changed,
-- see renew_limits. The same is done when the clock was set back: then it concerns the tubes with starts and those
-- that are still to be looked at, whose timers are late. Instead of the pattern there is CLOCK.
local SETS = { 'group-tubes', 'limited-waits' }

-- TUBE_COST is what looking at a tube costs, in groups.
local TUBE_COST = 5

-- must_look returns whether a tube that has groups concerns what has changed.
local function must_look(t, name)
  return t.renewed or name == CLOCK and (has_hash(t, 'starts') or call('HEXISTS', PREFIX .. 'rescans', t.name) == 1)
end

-- look_at_groups looks at a tube that has groups, and at up to limit of those. It returns how many.
local function look_at_groups(tube, name, limit)
  local t = find_tube(tube)
  return t and must_look(t, name) and begin_rescan(tube, limit) or 0
end

-- look_at_waits wakes clients that wait in a tube, if the policy with a name concerns it.
local function look_at_waits(tube, name)
  local t = name == CLOCK and find_tube(tube)
  if t then drop_starts(t, '') end
  if call('EXISTS', PREFIX .. 'waiting:' .. tube) == 0 then
    call('HDEL', PREFIX .. 'limited-waits', tube)
  elseif concerns(name, tube) and call('HEXISTS', PREFIX .. 'group-tubes', tube) == 0 then
    wake_all(tube)
  end
end

-- look_at_tubes looks at some tubes of a set from a cursor on. It returns the next cursor, and what is
-- left of a limit.
local function look_at_tubes(which, cursor, name, left)
  local found = call('HSCAN', PREFIX .. SETS[which], cursor, 'COUNT', format('%d', math.ceil(left / TUBE_COST)))
  for k = 1, #found[2], 2 do
    left = left - TUBE_COST
    if which == 1 then
      left = left - look_at_groups(found[2][k], name, math.max(left, 0))
    else
      look_at_waits(found[2][k], name)
    end
  end
  return found[1], left - 1
end

-- rescan_tubes looks at about limit groups of the tubes that the policy of a pattern concerns, from where
-- the last step has ended, and returns how many. rescans has there which set, the cursor, and the pattern.
function G.rescan_tubes(limit)
  local which, cursor, name = string.match(call('HGET', PREFIX .. 'rescans', '') or '', '^(%d) (%d+) (.*)$')
  local left = limit
  which, sum.changed = tonumber(which) or #SETS + 1, true
  while left > 0 and SETS[which] do
    cursor, left = look_at_tubes(which, cursor, name, left)
    if cursor == '0' then which = which + 1 end
  end
  if SETS[which] then
    call('HSET', PREFIX .. 'rescans', '', format('%d %s %s', which, cursor, name))
    call('ZADD', PREFIX .. 'timers', format('%.0f', NOW), 'g:')
    SLOW.note_due(NOW)
  else
    call('HDEL', PREFIX .. 'rescans', '')
    call('ZREM', PREFIX .. 'timers', 'g:')
  end
  return limit - left
end

-- begin_tubes lets the tubes be looked at that the policy of a pattern concerns. If that of another one has
-- changed before, and they were not yet, it concerns all.
local function begin_tubes(name)
  local before = string.match(call('HGET', PREFIX .. 'rescans', '') or '', '^%d %d+ (.*)$') or name
  if before ~= name then name = (before == CLOCK or name == CLOCK) and CLOCK or '*' end
  call('HSET', PREFIX .. 'rescans', '', '1 0 ' .. name)
end

-- SCAN_NOW is how many groups are looked at again at once, when a policy changes; timers continue.
local SCAN_NOW = 500

-- clock_went_back is called when the clock was set back.
function G.clock_went_back()
  begin_tubes(CLOCK)
  G.rescan_tubes(SCAN_NOW)
end

-- policy_changed is called after that. The tubes that it concerns have groups, or clients wait there.
function G.policy_changed(name)
  if not limits then return end
  if sub(name, -1) == '*' then
    begin_tubes(name)
    G.rescan_tubes(SCAN_NOW)
  elseif call('HEXISTS', PREFIX .. 'group-tubes', name) == 1 then
    begin_rescan(name, SCAN_NOW)
  else
    look_at_waits(name, name)
  end
end
