-- Figures about the groups and limits of a tube. What is not counted anywhere is counted in steps, each
-- with a cursor: first the lanes with ready or reserved jobs, by their records; then the groups that have
-- only delayed and buried jobs; at last names of lone jobs that are reserved, if the busiest groups are
-- among those. A tube that changes meanwhile can have some figures of before and some of after.

-- How much a step looks at, and what that costs of what a call may spend.
do
local LANES, MEMBERS, LONE = '200', 50, '500'
local LANES_COST, LANE_COST, MEMBERS_COST, LONE_COST, CHECKED_COST = 60, 1, 10, 60, 500

-- is_idle returns whether no job of a lane with that record is reserved or held.
local function is_idle(f, kind, text)
  return not f.rescanned and (kind == 'e' or kind == 's') and sub(text, LOAD_FROM, LOAD_TO) == NO_LOAD
end

-- look_at_lane adds a lane, by its record, to the figures f, and returns what that has cost.
local function look_at_lane(t, f, group, text)
  local kind = sub(text, 1, 1)
  if is_idle(f, kind, text) then return 0 end
  local lane = parse_lane(t, group, text)
  if lane.first and (f.rescanned or kind == 'n' or kind == 't') then
    local held = why_held(t, lane)
    if held ~= NOT_HELD then f.held[held] = f.held[held] + (lane.single and 1 or count_state(t, group, 'r')) end
  end
  local reserved = reserved_of(t, lane)
  if reserved == 0 then return LANE_COST end
  local concurrency = limits_of(t, lane)
  if concurrency > 0 and reserved >= concurrency then f.full = f.full + 1 end
  if reserved > 1 then f.several = f.several + 1 end
  f.busy[#f.busy + 1] = { name = group, reserved = reserved }
  return LANE_COST
end

-- Each step gets where it begins, adds to f, and returns where the next one of its kind begins, nil
-- if it was the last, and what it has cost.
local steps = {}

function steps.lanes(t, f, at)
  local found, cost = call('HSCAN', t.lanes, at == '' and '0' or at, 'COUNT', LANES), LANES_COST
  f.rescanned = is_rescanned(t)
  for k = 1, #found[2], 2 do
    if found[2][k] ~= '' then cost = cost + look_at_lane(t, f, found[2][k], found[2][k + 1]) end
  end
  return found[1] ~= '0' and found[1] or nil, cost
end

-- waiting looks at the first job of each group: that is a delayed or buried one if the group has any.
function steps.waiting(t, f, at)
  if call('ZCARD', t.jobs) == call('ZCARD', t.ready) then return nil, 0 end
  local members = call('ZRANGEBYLEX', t.jobs, at == '' and '-' or '(' .. at .. '\1', '+', 'LIMIT', '0', format('%d', MEMBERS))
  local groups, last = {}, nil
  for _, member in ipairs(members) do
    local group = string.match(member, '^[^%z]+')
    if group ~= last and sub(member, #group + 2, #group + 2) ~= 'r' then groups[#groups + 1] = group end
    last = group
  end
  if groups[1] then
    local lanes, lone = call('HMGET', t.lanes, unpack(groups)), call('HMGET', t.lone, unpack(groups))
    for k in ipairs(groups) do
      if not lanes[k] and not lone[k] then f.groups = f.groups + 1 end
    end
  end
  return #members == MEMBERS and last or nil, MEMBERS_COST
end

-- least_ready returns the least ID of a ready lone job, if it is certain: '' if it is not, and a text
-- behind all IDs if there is none.
local function least_ready(t)
  local first = call('ZRANGE', t.lone_ready, '0', '0', 'WITHSCORES')
  if not first[1] then return ':' end
  local last = call('ZRANGE', t.lone_ready, '-1', '-1', 'WITHSCORES')
  return first[2] == last[2] and sub(first[1], #PREFIX + 1, KEY_LENGTH) or ''
end

-- look_at_lone adds the groups of lone jobs to f that a function says to be reserved, by their IDs. It
-- returns the next cursor, nil if there is none, and how many they are.
local function look_at_lone(t, f, cursor, is_reserved)
  local found, n = call('HSCAN', t.lone, cursor == '' and '0' or cursor, 'COUNT', LONE), 0
  for k = 1, #found[2], 2 do
    if is_reserved(found[2][k + 1]) then n, f.busy[#f.busy + 1] = n + 1, { name = found[2][k], reserved = 1 } end
  end
  return found[1] ~= '0' and found[1] or nil, n
end

-- lone looks at the lone jobs before the first ready one, as these are certainly reserved; at is the
-- cursor, and how many were found. Mostly that are all.
function steps.lone(t, f, at)
  local all = f.several < f.wanted and lone_reserved(t) or 0
  if all <= 0 then return nil, 0 end
  local cursor, before = string.match(at, '^(%d+) (%d+)$')
  local least = least_ready(t)
  local after, n = nil, 0
  if least ~= '' then after, n = look_at_lone(t, f, cursor or '', function(id) return id < least end) end
  n = n + (before or 0)
  f.unfound = n < all
  return after and after .. ' ' .. n, LONE_COST
end

-- checked looks at each other lone job by itself. It begins at '0' if not all that are reserved were found,
-- else at ''.
function steps.checked(t, f, at)
  if at == '' then return nil, 0 end
  local least = least_ready(t)
  return (look_at_lone(t, f, at, function(id)
    local j = id >= least and SLOW.load(PREFIX .. id)
    return j and not SLOW.is_in(t.lone_ready, j)
  end)), CHECKED_COST
end

local ORDER = { 'lanes', 'waiting', 'lone', 'checked' }

-- begin adds to f what is counted already.
local function begin(t, f)
  f.groups = call('HLEN', t.lanes) - call('HEXISTS', t.lanes, '') + call('HLEN', t.lone)
  if t.group_limit == 1 then f.full = lone_reserved(t) end
end

-- count_on makes steps from a cursor on, as long as there is something left to spend. It returns the next
-- cursor, '' if there is none, and what is left.
local function count_on(t, f, cursor, left)
  local which, at = string.match(cursor, '^(%d)(.*)$')
  which, at = tonumber(which or 1), at or ''
  if cursor == '' then begin(t, f) end
  while ORDER[which] do
    if left <= 0 then return which .. at, left end
    local after, cost = steps[ORDER[which]](t, f, at)
    left = left - cost
    if after then at = after else which, at = which + 1, f.unfound and '0' or '' end
  end
  return '', left
end

-- answer_busy answers with the busiest groups of f. HSCAN can return an entry twice.
local function answer_busy(f)
  local top = {}
  table.sort(f.busy, function(a, b) return a.reserved > b.reserved or a.reserved == b.reserved and a.name < b.name end)
  for k, group in ipairs(f.busy) do
    if #top == MAX_BUSIEST then break end
    if k == 1 or f.busy[k - 1].name ~= group.name then top[#top + 1] = group end
  end
  answer(#top)
  for _, group in ipairs(top) do
    SLOW.answer_text(group.name)
    answer(group.reserved)
  end
end

-- answer_figures answers limit-stats for one tube, and returns what is left to spend.
function G.answer_figures(tube, cursor, several, left)
  local t = find_tube(tube)
  if t then update_index(t) end
  if not t or not t.listed and t.limit == 0 and not t.rates then
    answer(0)
    return left
  end
  answer(1)
  local f = { held = { 0, 0, 0 }, groups = 0, full = 0, busy = {}, several = 0, wanted = MAX_BUSIEST - several, unfound = false }
  local after = ''
  if t.listed then after, left = count_on(t, f, cursor, left) end
  SLOW.answer_text(after)
  for _, n in ipairs(f.held) do answer(n) end
  answer((tube_held(t)))
  answer(f.groups)
  answer(f.full)
  answer_busy(f)
  return left
end
end
