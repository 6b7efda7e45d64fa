-- Lanes, each a table:
--   group, turn
--   text           its record in lanes:TUBE; nil if it is not live
--   member, score  its entry in eligible:TUBE; nil if it has none
--   pri, id        of its first ready job; nil if none is ready, or while stale is set
--   reserved       how many of its jobs are reserved; nil: unknown
--   override, pause  what set-group and pause-group have set, false for nothing; nil: unknown
--
-- The record is TURN;LOAD;SCORE;PRI;ID: LOAD and SCORE are those of the entry, or empty, and so are
-- PRI and ID.

local ENTRY, RECORD = '%012.0f%016.0f', '%.0f;%s;%s;%s;%s'

-- parse_lane returns a lane by its record; false if it has none.
local function parse_lane(group, text)
  local lane = { group = group, text = text or nil, turn = 0, reserved = not text and 0 or nil }
  if not text then return lane end
  local turn, load, score, pri, id = string.match(text, '^(%d+);(%d*);(%d*);(%d*);(%d*)$')
  lane.turn, lane.pri, lane.id = tonumber(turn), tonumber(pri), id ~= '' and id or nil
  if load ~= '' then lane.member, lane.score = format(ENTRY, load, turn) .. group, tonumber(score) end
  return lane
end

-- lane_of returns the lane of a group.
local function lane_of(t, group)
  local lane = t.lane[group]
  if not lane then
    lane = parse_lane(group, call('HGET', t.lanes, group))
    t.lane[group] = lane
  end
  return lane
end

-- read_lanes reads the lanes of some groups together.
local function read_lanes(t, groups)
  local missing, asked = {}, {}
  for _, group in ipairs(groups) do
    if not t.lane[group] and not asked[group] then missing[#missing + 1], asked[group] = group, true end
  end
  if not missing[1] then return end
  local texts = call('HMGET', t.lanes, unpack(missing))
  for k, group in ipairs(missing) do t.lane[group] = parse_lane(group, texts[k]) end
end

-- The names of a job in the sorted sets of its lane.
local function ready_name(group, pri, id) return group .. '\0r' .. format('%010.0f', pri) .. id end
local function waiting_name(group, letter, id) return group .. '\0' .. letter .. id end
local function reserved_name(group, id) return group .. '\0' .. id end

-- read_first reads which ready job of a lane is the first behind a member of lane-jobs:TUBE.
local function read_first(t, lane, behind)
  local low = behind and '(' .. behind or '[' .. lane.group .. '\0r'
  local first = call('ZRANGEBYLEX', t.jobs, low, '(' .. lane.group .. '\0s', 'LIMIT', '0', '1')[1]
  lane.stale, lane.pri, lane.id = false, nil, nil
  if first then lane.pri, lane.id = tonumber(sub(first, -ID_LENGTH - 10, -ID_LENGTH - 1)), sub(first, -ID_LENGTH) end
end

-- has_ready returns whether a lane has a ready job.
local function has_ready(t, lane)
  if lane.stale then read_first(t, lane) end
  return lane.id ~= nil
end

-- reserved_of returns how many jobs of a lane are reserved.
local function reserved_of(t, lane)
  lane.reserved = lane.reserved or call('ZLEXCOUNT', t.reserved, '[' .. lane.group .. '\0', '(' .. lane.group .. '\1')
  return lane.reserved
end

-- override_of returns what set-group has set for a lane, nil if nothing: gone, the time when it
-- vanishes unless the group has jobs; concurrency, rates (nil), weight, and ttl, all numbers.
local function override_of(t, lane)
  if lane.override == nil then
    local text = has(t, 'group-limits') and call('HGET', PREFIX .. 'group-limits:' .. t.name, lane.group)
    local gone, concurrency, rates, weight, ttl = string.match(text or '', '^(%d+) (%d+) ([%d,]+) (%d+) (%d+)$')
    lane.override = gone ~= nil and {
      gone = tonumber(gone), concurrency = tonumber(concurrency), rates = rates_of(rates), weight = tonumber(weight), ttl = tonumber(ttl),
    }
  end
  return lane.override or nil
end

-- limits_of returns concurrency, rates and weight of a lane, as they apply.
local function limits_of(t, lane)
  local o = override_of(t, lane)
  if not o then return t.group_limit, t.group_rates, 1 end
  local concurrency = o.concurrency > 0 and o.concurrency or t.group_limit
  return t.strict and 1 or concurrency, o.rates or t.group_rates, o.weight
end

-- pause_of returns until when a lane is paused; 0 if it is not.
local function pause_of(t, lane)
  if lane.pause == nil then
    local till = has(t, 'group-pauses') and call('HGET', PREFIX .. 'group-pauses:' .. t.name, lane.group)
    lane.pause = till and tonumber(till) or 0
  end
  return lane.pause > NOW and lane.pause or 0
end

-- head_of returns the head of a lane, which is strict: the job that started last, until it leaves
-- the lane. It is a job without its body; nil if there is none.
local function head_of(t, lane)
  local id = has(t, 'heads') and call('HGET', PREFIX .. 'heads:' .. t.name, lane.group)
  if not id then return nil end
  local j = OPS.load(PREFIX .. id)
  if j and j.tube == t.name and j.state ~= 'buried' then return j end
  call('HDEL', PREFIX .. 'heads:' .. t.name, lane.group)
  return nil
end

-- why_held returns why no job of a lane may start, NOT_HELD if one may, and when that must be looked
-- at again, 0 for never. The head is that of a strict lane which may start, or nil.
local function why_held(t, lane)
  local till, concurrency, rates = pause_of(t, lane), limits_of(t, lane)
  if till > 0 then return HELD_BY_PAUSE, till end
  if concurrency > 0 and reserved_of(t, lane) >= concurrency then return HELD_BY_CONCURRENCY, 0 end
  local head = t.strict and head_of(t, lane) or nil
  if head and head.state ~= 'ready' then return HELD_BY_CONCURRENCY, 0 end
  local left, at = tokens(t, lane.group, rates)
  if left == 0 then return HELD_BY_RATE, at end
  return NOT_HELD, 0, head
end

-- tube_held returns why the limits of a tube allow no start, NOT_HELD if they do, and how many they
-- allow.
local function tube_held(t)
  local left = math.huge
  if t.limit > 0 then left = math.max(t.limit - reserved_in(t), 0) end
  if left == 0 then return HELD_BY_CONCURRENCY, 0 end
  local starts = tokens(t, '', t.rates)
  if starts == 0 then return HELD_BY_RATE, 0 end
  return NOT_HELD, math.min(left, starts)
end

-- next_of returns the entry that a lane should have, as score and member, and the id of the job that
-- would start; nil if none may. at is when that must be looked at again.
local function next_of(t, lane)
  if not has_ready(t, lane) then return nil end
  local held, at, head = why_held(t, lane)
  if at > 0 then recheck_at(t, lane.group, at) end
  if held ~= NOT_HELD then return nil end
  local _, _, weight = limits_of(t, lane)
  local load = math.floor(reserved_of(t, lane) * 1000 / weight)
  local pri, id = lane.pri, lane.id
  if head then pri, id = head.pri, sub(head.key, #PREFIX + 1) end
  return pri, format(ENTRY, load, lane.turn) .. lane.group, id
end

local function dirty(t, lane) t.dirty[lane] = true end

-- entered_ready is called when a job has become ready, but before it is in the sets.
local function becomes_ready(t, lane, pri, id)
  if not has_ready(t, lane) then lane.turn = next_turn(t) end
  if not lane.id or pri < lane.pri or pri == lane.pri and id < lane.id then
    lane.pri, lane.id = pri, id
    dirty(t, lane)
  end
end

-- note_start is called when a job of a lane has been reserved that was not.
local function note_start(t, lane, id)
  local _, rates = limits_of(t, lane)
  lane.reserved = lane.reserved and lane.reserved + 1
  if has_ready(t, lane) then lane.turn = next_turn(t) end
  take_tokens(t, lane.group, rates, 1)
  if t.strict then
    call('HSET', PREFIX .. 'heads:' .. t.name, lane.group, id)
    t.heads = true
  elseif has(t, 'heads') then
    call('HDEL', PREFIX .. 'heads:' .. t.name, lane.group)
  end
  dirty(t, lane)
end
