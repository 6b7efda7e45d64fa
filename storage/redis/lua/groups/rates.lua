-- Rates: at most N starts in any period of each length. starts:TUBE has for each group, '' for the
-- tube, and each period of a rate the entries FIRST,LAST,COUNT; of the starts that count. A start
-- within an eighth of the period after FIRST is added to the last entry, unless that has PARTS-th of
-- N starts, so there are few. The tokens of an entry come back one period after LAST: soon after each
-- start where it matters, which is where all of them are used. A start is never later than now: those that
-- are, because the clock was set back, count as starts of now.

local PARTS = 64

-- bring_back makes entries that are later than now one of now, and returns whether there were any.
local function bring_back(entries)
  local last = { first = NOW_UP, last = NOW_UP, count = 0 }
  while entries[1] and entries[#entries].last > NOW_UP do
    local e = table.remove(entries)
    last.first, last.count = math.min(last.first, e.first), last.count + e.count
  end
  if last.count == 0 then return false end
  entries[#entries + 1] = last
  return true
end

-- entries_of returns the entries of a group for a period, without those whose tokens are back.
local function entries_of(t, group, k)
  local windows = t.windows[group]
  if not windows then
    windows = { changed = {} }
    t.windows[group] = windows
  end
  if not windows[k] then
    windows[k] = {}
    local text = has_hash(t, 'starts') and call('HGET', PREFIX .. 'starts:' .. t.name, k .. group) or ''
    for first, last, count in string.gmatch(text, '(%d+),(%d+),(%d+);') do
      windows[k][#windows[k] + 1] = { first = tonumber(first), last = tonumber(last), count = tonumber(count) }
    end
    if bring_back(windows[k]) then windows.changed[k] = true end
  end
  while windows[k][1] and windows[k][1].last + PERIODS[k] <= NOW do
    table.remove(windows[k], 1)
    windows.changed[k] = true
  end
  return windows[k]
end

-- tokens returns how many starts the rates allow a group now, and if none, when one is allowed.
local function tokens(t, group, rates)
  local least, at = math.huge, 0
  for k, most in ipairs(rates) do
    if most > 0 then
      local entries, left = entries_of(t, group, k), most
      for _, e in ipairs(entries) do left = left - e.count end
      least = math.min(least, math.max(left, 0))
      for _, e in ipairs(entries) do
        if left > 0 then break end
        left = left + e.count
        if left > 0 then at = math.max(at, e.last + PERIODS[k]) end
      end
    end
  end
  return least, at
end

-- take_tokens takes tokens for n starts of a group.
local function take_tokens(t, group, rates, n)
  for k, most in ipairs(rates) do
    if most > 0 then
      local entries = entries_of(t, group, k)
      local e = entries[#entries]
      if not e or NOW_UP ~= e.last and (NOW_UP - e.first >= PERIODS[k] / 8 or e.count * PARTS >= most) then
        e = { first = NOW_UP, last = NOW_UP, count = 0 }
        entries[#entries + 1] = e
      end
      e.last, e.count, t.windows[group].changed[k] = NOW_UP, e.count + n, true
    end
  end
end

-- recheck_at lets a group, or with '' the tube, be looked at again at a time, or before.
local function recheck_at(t, group, at)
  t.rechecks[group] = math.min(t.rechecks[group] or math.huge, at)
end

-- save_windows writes the starts of a group that have changed.
local function save_windows(t, group, windows)
  local key, last = PREFIX .. 'starts:' .. t.name, 0
  for k in pairs(windows.changed) do
    local said = {}
    for n, e in ipairs(windows[k]) do said[n] = format('%.0f,%.0f,%.0f;', e.first, e.last, e.count) end
    if said[1] then
      call('HSET', key, k .. group, concat(said))
      last, t.starts = math.max(last, windows[k][#windows[k]].last + PERIODS[k]), true
    else
      call('HDEL', key, k .. group)
    end
  end
  windows.changed = {}
  if last > 0 then recheck_at(t, group, last) end
end

-- save_rechecks writes when groups of a tube must be looked at again.
local function save_rechecks(t)
  local queue, timer, first = PREFIX .. 'rechecks:' .. t.name, 'g:' .. t.name, math.huge
  for group, at in pairs(t.rechecks) do
    local have = call('ZSCORE', queue, group)
    if not have or tonumber(have) > at then call('ZADD', queue, format('%.0f', at), group) end
    first = math.min(first, at)
  end
  t.rechecks = {}
  local due = call('ZSCORE', PREFIX .. 'timers', timer)
  if not due or tonumber(due) > first then call('ZADD', PREFIX .. 'timers', format('%.0f', first), timer) end
  SLOW.note_due(first)
end
