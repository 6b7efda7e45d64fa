-- How the index of a tube is kept right.
--
-- The problem: eligible:TUBE must have the entry that each lane should have, and nearly everything changes that: a put, a start,
-- an end, a limit, a pause. In one call a lane can change a hundred times.
--
-- So operations do not touch the index. They change the lane, a table, and mark it with mark_dirty; update_index computes and writes
-- what has changed, for all dirty lanes together: before a take reads the index, and once at the end of the call. lane.member is the
-- entry that Redis has, next_of says which one it should have, and the difference is written. A take that has just computed that
-- leaves it in lane.fresh. The record of the lane in lanes:TUBE follows, so that the next call need not look for the first
-- job. A lane without ready and reserved jobs has no record.
--
-- The invariant after update_index: a lane has an entry exactly if one of its jobs may start now, and the entry is right. What will
-- change only with time (a pause that ends, a token that is back) is in rechecks:TUBE. The cost: ZREM, ZADD, HSET and
-- HDEL for a tube, however many of its lanes have changed.

-- update_lane adds to w what must be written for a dirty lane, and counts those of which a job may
-- start now, and might not before.
local function update_lane(t, lane, w)
  local member = lane.fresh
  if member == nil then member = next_of(t, lane) or false end
  if lane.member ~= member then
    if lane.member then w.out[#w.out + 1] = lane.member end
    if member then w.into[#w.into + 1], w.into[#w.into + 2] = '0', member end
    if member and not lane.member then w.begun = w.begun + 1 end
    lane.member = member
  end
  local text
  if not has_ready(t, lane) then
    lane.turn = NO_TURN
    if reserved_of(t, lane) == 0 then
      w.gone[#w.gone + 1] = lane.group
      return
    end
    text = ONLY_RESERVED
  elseif member then
    text = (lane.single and 's' or 'e') .. sub(member, 1, ENTRY_LENGTH) .. lane.first
  else
    text = (lane.single and 't' or 'n') .. lane.turn .. lane.first
  end
  w.records[#w.records + 1], w.records[#w.records + 2] = lane.group, text
end

-- keep_override writes what set-group has set for a lane, which vanishes at a time, or never if it has
-- no ttl.
local function keep_override(t, lane, o, gone)
  local rates = o.rates or { 0, 0, 0 }
  o.gone = gone
  call('HSET', PREFIX .. 'group-limits:' .. t.name, lane.group,
    format('%.0f %.0f %.0f,%.0f,%.0f %.0f %.0f', gone, o.concurrency, rates[1], rates[2], rates[3], o.weight, o.ttl))
  t['group-limits'] = true
  if o.ttl > 0 then recheck_at(t, lane.group, gone) end
end

-- note_left lets what set-group has set for groups that have no ready jobs any more last for its ttl
-- from now on.
local function note_left(t)
  for lane in pairs(t.left) do
    local o = not lane.first and override_of(t, lane)
    if o and o.ttl > 0 then keep_override(t, lane, o, NOW_UP + o.ttl) end
  end
  t.left = nil
end

-- write_starts writes the starts that have changed.
local function write_starts(t)
  for group, windows in pairs(t.windows) do
    if next(windows.changed) then save_windows(t, group, windows) end
  end
  if t.rates then
    local left, at = tokens(t, '', t.rates)
    if left == 0 then recheck_at(t, '', at) end
  end
end

-- write_lanes writes what update_lane has collected.
local function write_lanes(t, w)
  if w.out[1] then call('ZREM', t.eligible, unpack(w.out)) end
  if w.into[1] then call('ZADD', t.eligible, unpack(w.into)) end
  if t.turned then w.records[#w.records + 1], w.records[#w.records + 2] = '', t.counter .. ' ' .. t.plain_turn end
  if w.records[1] then call('HSET', t.lanes, unpack(w.records)) end
  if w.gone[1] then call('HDEL', t.lanes, unpack(w.gone)) end
  t.turned = false
end

-- update_index brings the index of a tube up to date.
local function update_index(t)
  if next(t.dirty) then
    local w = { out = {}, into = {}, records = {}, gone = {}, begun = 0 }
    for lane in pairs(t.dirty) do update_lane(t, lane, w) end
    t.dirty = {}
    write_lanes(t, w)
    wakeups[t.name] = math.max(wakeups[t.name] or 0, w.begun)
  elseif t.turned then
    write_lanes(t, { out = {}, into = {}, records = {}, gone = {} })
  end
  if next(t.windows) then write_starts(t) end
  if t.left then note_left(t) end
  if next(t.rechecks) then save_rechecks(t) end
  if t.thinned then unlist_tube(t) end
end

-- startable returns how many of the jobs of a tube may start now, most at most.
local function startable(t, most)
  local held, left = tube_held(t)
  if held ~= NOT_HELD then return 0 end
  most = math.min(most, left)
  local n = call('ZCARD', READY .. t.name) + SLOW.joined_in(t.name) + call('ZCARD', t.lone_ready)
  local entries = n < most and call('ZRANGE', t.eligible, '0', format('%d', math.min(most, 1000) - 1)) or {}
  for _, entry in ipairs(entries) do
    if n >= most then break end
    local lane = lane_of(t, sub(entry, ENTRY_LENGTH + 1))
    local concurrency, rates = limits_of(t, lane)
    local ready = call('ZLEXCOUNT', t.jobs, '[' .. lane.group .. '\0r', '(' .. lane.group .. '\0s')
    if concurrency > 0 then ready = math.min(ready, concurrency - reserved_of(t, lane)) end
    n = n + (rates and math.min(ready, (tokens(t, lane.group, rates))) or ready)
  end
  return math.min(n, most)
end

-- limit_wakeups lets no more clients be woken in a tube than jobs may start, where clients wait. It
-- must be called before the counters are written, as it needs those of tubes.
local function limit_wakeups()
  for tube, n in pairs(wakeups) do
    local t = n > 0 and find_tube(tube)
    if t and call('EXISTS', PREFIX .. 'waiting:' .. tube) == 1 then wakeups[tube] = startable(t, n) end
  end
end

function update_indexes(ends)
  for _, t in pairs(tubes) do
    if t then update_index(t) end
  end
  if ends then limit_wakeups() end
end

-- wake_all wakes as many clients as jobs of a tube may start.
local function wake_all(tube)
  local n = call('ZCARD', READY .. tube) + SLOW.joined_in(tube) + G.ready_in(tube)
  if n > 0 then wakeups[tube] = (wakeups[tube] or 0) + n end
end
