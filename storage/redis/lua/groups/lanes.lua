-- Lanes, each a table. It has these eight fields from the beginning, because tables of Lua grow
-- slowly:
--   group, turn
--   member    its entry in eligible:TUBE; false if it has none
--   first     priority and id of its first ready job, 10 and 16 digits; false if none is ready; STALE:
--             unknown
--   single    whether that is certainly the only ready one
--   reserved  how many of its jobs are reserved; false: unknown
--   fresh     the entry that it should have, false for none; nil: unknown
--   config    what was set for it, false: unknown. A table of override, what set-group has set, false
--             for nothing, and pause, until when it is paused, 0 for never
--
-- An entry is PRI LOAD TURN GROUP, 10, 12 and 25 digits and the name: the priority of the job that
-- would start, and LOAD the thousandths of reserved jobs by the weight. All have score 0, so they are
-- in that order.
--
-- lanes:TUBE has a record of each lane that has ready jobs: 'e' or 's', PRI, LOAD and TURN of its entry,
-- and FIRST; without an entry 'n' or 't', TURN and FIRST. With s and t the lane is single. The record
-- of a lane that has only reserved ones is 'x'.
--
-- Whoever changes which jobs of a lane are reserved lets its load be computed anew, from
-- lane-reserved:TUBE. So the load says how many they are, and a take believes it as long as they are
-- less than half of the limit. Beyond that it counts them.

local ENTRY_LENGTH, TURN_AT, TURN_LENGTH = 47, 23, 25 -- of an entry without its group, and where its turn begins
local LOAD_FROM, LOAD_TO = 12, 23 -- in a record
local STALE = ''
local ONLY_RESERVED = 'x'
local UNSET = { override = false, pause = 0 } -- the config of most lanes

-- parse_lane returns a lane by its record; false if it has none.
local function parse_lane(t, group, text)
  local lane = {
    group = group, turn = NO_TURN, member = false, first = false, single = false, reserved = false, fresh = false, config = false,
  }
  lane.fresh = nil
  if not text or text == ONLY_RESERVED then return lane end
  local turn_at, kind = 2, sub(text, 1, 1)
  if kind == 'e' or kind == 's' then
    lane.member, turn_at = sub(text, 2, ENTRY_LENGTH + 1) .. group, TURN_AT + 1
    if not has_hash(t, 'group-limits') then lane.reserved = sub(text, LOAD_FROM, LOAD_TO) / 1000 end
  end
  lane.turn, lane.first, lane.single = sub(text, turn_at, turn_at + TURN_LENGTH - 1), sub(text, turn_at + TURN_LENGTH), kind == 's' or kind == 't'
  return lane
end

-- keep_lane returns the lane of a group that was read: the ID of its lone job, which it is not any more, or
-- its record. lane_of does that for one that need not have been read.
local unpack_lone -- see lone.lua
local function keep_lane(t, group, lone, text)
  local lane = parse_lane(t, group, not lone and text)
  t.lane[group] = lane
  if lone then unpack_lone(t, lane, lone) end
  return lane
end

local function lane_of(t, group)
  if t.lane[group] then return t.lane[group] end
  local lone = t.listed and call('HGET', t.lone, group)
  return keep_lane(t, group, lone, not lone and call('HGET', t.lanes, group))
end

-- read_lanes reads the lanes of some groups together, whose jobs are not lone.
local function read_lanes(t, groups)
  local missing, lanes = {}, t.lane
  for _, group in ipairs(groups) do
    if lanes[group] == nil then missing[#missing + 1], lanes[group] = group, false end
  end
  if not missing[1] then return end
  local texts = call('HMGET', t.lanes, unpack(missing))
  for k, group in ipairs(missing) do lanes[group] = parse_lane(t, group, texts[k]) end
end

-- first_of returns FIRST for a job by its priority, a number or a text. Mostly that is the same.
local last_pri, last_digits
local function first_of(pri, id)
  if pri ~= last_pri then last_pri, last_digits = pri, format('%010d', pri) end
  return last_digits .. id
end

-- The names of a job in the sorted sets of its lane.
local function ready_name(group, first) return group .. '\0r' .. first end
local function waiting_name(group, letter, id) return group .. '\0' .. letter .. id end
local function reserved_name(group, id) return group .. '\0' .. id end

-- read_first reads which ready job of a lane is the first behind a member of lane-jobs:TUBE.
local function read_first(t, lane, behind)
  local group = lane.group
  local first = call('ZRANGEBYLEX', t.jobs, behind and '(' .. behind or '[' .. group .. '\0r', '(' .. group .. '\0s', 'LIMIT', '0', '1')[1]
  lane.first, lane.single = first and sub(first, #group + 3) or false, false
end

-- has_ready returns FIRST of a lane; false if it has no ready job.
local function has_ready(t, lane)
  if lane.first == STALE then read_first(t, lane) end
  return lane.first
end

-- count_reserved counts how many jobs of a lane are reserved.
local function count_reserved(t, lane)
  local group = lane.group
  local written = call('ZLEXCOUNT', t.reserved, '[' .. group .. '\0', '(' .. group .. '\1')
  lane.reserved, t.counted[lane] = written + (t.unwritten[lane] or 0), true
end

-- reserved_of returns how many jobs of a lane are reserved.
local function reserved_of(t, lane)
  if not lane.reserved then count_reserved(t, lane) end
  return lane.reserved
end

-- reaches returns whether as many jobs of a lane are reserved as a limit says, or will be when some
-- more are.
local function reaches(t, lane, concurrency, more)
  if concurrency == 0 then return false end
  if 2 * (reserved_of(t, lane) + more) >= concurrency and not t.counted[lane] then count_reserved(t, lane) end
  return lane.reserved >= concurrency
end

-- configure reads what set-group and pause-group have set for a lane: an override is a table of
-- gone, the time when it vanishes unless the group has jobs; concurrency, rates (nil), weight, and
-- ttl, all numbers.
local function configure(t, lane)
  if not has_hash(t, 'group-pauses') and not has_hash(t, 'group-limits') then
    lane.config = UNSET
    return
  end
  lane.config = { override = false, pause = tonumber(call('HGET', PREFIX .. 'group-pauses:' .. t.name, lane.group) or 0) }
  local text = call('HGET', PREFIX .. 'group-limits:' .. t.name, lane.group) or ''
  local gone, concurrency, rates, weight, ttl = string.match(text, '^(%d+) (%d+) ([%d,]+) (%d+) (%d+)$')
  lane.config.override = gone ~= nil and {
    gone = tonumber(gone), concurrency = tonumber(concurrency), rates = rates_of(rates), weight = tonumber(weight), ttl = tonumber(ttl),
  }
end

-- own_config returns the config of a lane, to be changed.
local function own_config(t, lane)
  if not lane.config then configure(t, lane) end
  if lane.config == UNSET then lane.config = { override = false, pause = 0 } end
  return lane.config
end

-- override_of returns what set-group has set for a lane, nil if nothing.
local function override_of(t, lane)
  if not lane.config then configure(t, lane) end
  return lane.config.override or nil
end

-- limits_of returns concurrency, rates and weight of a lane, as they apply.
local function limits_of(t, lane)
  if not lane.config then configure(t, lane) end
  local o = lane.config.override
  if not o then return t.group_limit, t.group_rates, 1 end
  local concurrency = o.concurrency > 0 and o.concurrency or t.group_limit
  return t.strict and 1 or concurrency, o.rates or t.group_rates, o.weight
end

-- pause_of returns until when a lane is paused; 0 if it is not.
local function pause_of(t, lane)
  if not lane.config then configure(t, lane) end
  local pause = lane.config.pause
  return pause > NOW and pause or 0
end

-- head_of returns the head of a lane, which is strict: the job that started last, until it leaves
-- the lane. It is a job without its body; nil if there is none.
local function head_of(t, lane)
  local id = has_hash(t, 'heads') and call('HGET', PREFIX .. 'heads:' .. t.name, lane.group)
  if not id then return nil end
  local j = SLOW.load(PREFIX .. id)
  if j and j.tube == t.name and j.state ~= 'buried' then return j end
  call('HDEL', PREFIX .. 'heads:' .. t.name, lane.group)
  return nil
end

-- why_held returns why no job of a lane may start, NOT_HELD if one may, and when that must be looked
-- at again, 0 for never. The third result is the head of a strict lane which may start, or nil.
local function why_held(t, lane)
  local concurrency, rates = limits_of(t, lane)
  local pause = lane.config.pause
  if pause > NOW then return HELD_BY_PAUSE, pause end
  if reaches(t, lane, concurrency, 0) then return HELD_BY_CONCURRENCY, 0 end
  local head = t.strict and head_of(t, lane) or nil
  if head and head.state ~= 'ready' then return HELD_BY_CONCURRENCY, 0 end
  if rates then
    local left, at = tokens(t, lane.group, rates)
    if left == 0 then return HELD_BY_RATE, at end
  end
  return NOT_HELD, 0, head
end

-- tube_held returns why the limits of a tube allow no start, NOT_HELD if they do, and how many they
-- allow.
local function tube_held(t)
  local left = math.huge
  if t.limit > 0 then left = math.max(t.limit - reserved_in(t), 0) end
  if left == 0 then return HELD_BY_CONCURRENCY, 0 end
  local starts = t.rates and tokens(t, '', t.rates) or math.huge
  if starts == 0 then return HELD_BY_RATE, 0 end
  return NOT_HELD, math.min(left, starts)
end

-- next_of returns the entry that a lane should have, and FIRST of the job that would start; nil if
-- none may.
local function next_of(t, lane)
  local first = has_ready(t, lane)
  if not first then return nil end
  local held, at, head = why_held(t, lane)
  if at > 0 then recheck_at(t, lane.group, at) end
  if held ~= NOT_HELD then return nil end
  local reserved, o = reserved_of(t, lane), lane.config.override
  if head then first = first_of(head.pri, sub(head.key, #PREFIX + 1)) end
  local load = math.floor(reserved * 1000 / (o and o.weight or 1))
  return format('%s%012d%s%s', sub(first, 1, 10), load, lane.turn, lane.group), first
end

local function mark_dirty(t, lane) t.dirty[lane], lane.fresh = true, nil end

-- becomes_ready is called when a job becomes ready, before it is in the sets. put says that it was just
-- put.
local function becomes_ready(t, lane, first, put)
  local ready = has_ready(t, lane)
  if not ready then lane.turn = put and turn_of(t, sub(first, 11)) or next_turn(t) end
  if not ready or first < ready then
    lane.first = first
    mark_dirty(t, lane)
  end
  if lane.single then mark_dirty(t, lane) end
  lane.single = not ready
end

-- note_start is called when a job of a lane has been reserved that was not.
local function note_start(t, lane, id)
  local _, rates = limits_of(t, lane)
  if lane.reserved then lane.reserved = lane.reserved + 1 end
  if has_ready(t, lane) then lane.turn = next_turn(t) end
  if rates then take_tokens(t, lane.group, rates, 1) end
  if t.strict then
    call('HSET', PREFIX .. 'heads:' .. t.name, lane.group, id)
    t.heads = true
  elseif has_hash(t, 'heads') then
    call('HDEL', PREFIX .. 'heads:' .. t.name, lane.group)
  end
  mark_dirty(t, lane)
end
