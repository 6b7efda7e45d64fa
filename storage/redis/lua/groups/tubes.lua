-- Tubes with limits or jobs with groups.
--
-- The problem: nearly no tube has either, and a tube that has none must pay nothing; but a put into one tube can give it its
-- first group while other instances use it, and a policy for a prefix concerns tubes that nobody can list.
--
-- So one small key, limited, is read in each call, together with batch:INST. It says whether any tube has groups (g), and whether
-- any policy limits starts (p). Without it nothing of groups/ is even defined. With g, group-tubes has the tubes with groups,
-- each with the limits that its policy set when they were last computed, and the generation, a number that each change
-- of a policy for a prefix increments. A text of another generation is computed anew when the tube is next used
-- (set_limits), and if other limits apply now, a timer looks at all its groups (renew_limits). So a policy costs the same
-- however many tubes it concerns, and a tube pays for it when it is used.
--
-- The invariant: a tube is in group-tubes while it has jobs with groups, in whatever state (list_tube, unlist_tube); and `limited` is
-- what set_flags computes from group-tubes and limit-policies.
--
-- t, below, is what the script knows of such a tube, read once in a call:
--   name          of the tube; jobs, ready, reserved, lanes, eligible, lone, lone_ready: the keys of its lanes
--   limit, rates  of the tube: most reserved jobs, 0 for no limit, and starts by period, nil if none
--   group_limit, group_rates, strict  what its policy says of each group
--   lane          lanes by group, as far as the call has needed them; dirty: those whose entry must be updated;
--                 counted: those whose reserved jobs the call has counted
--   unwritten     by lane: how many of its reserved jobs are not yet in the sets
--   windows       starts by group, '' for the tube; see rates.lua
--   rechecks      by group, '' for the tube: when it must be looked at again
--   counter       the last turn that was given, see turn_of; plain_turn: that of the plain lane
--   thinned       whether a job with a group has left the tube
--   renewed       whether the call has found that other limits apply than before

local tubes = {} -- by name; false for a tube that nothing limits

-- generation returns how often the policy of a pattern has changed, as a text; '' for never. It counts
-- while a tube has jobs with groups: what group-tubes has of another generation may be outdated.
local function generation() return limited and string.match(limited, '%d+') or '' end

-- set_flags writes what the key limited says: g if a tube has jobs with groups, p if a policy limits
-- starts, and the generation, which is as before unless it is given.
local function set_flags(of)
  local g = call('EXISTS', PREFIX .. 'group-tubes') == 1 and 'g' or ''
  local p = call('EXISTS', PREFIX .. 'limit-policies') == 1 and 'p' or ''
  limited = g .. p .. (g == 'g' and (of or generation()) or '')
  if limited == '' then
    call('DEL', PREFIX .. 'limited')
    limited = nil
  else
    call('SET', PREFIX .. 'limited', limited)
  end
end

-- rates_of returns starts by period, from the text of a policy or a group; nil if there is none.
local function rates_of(text)
  if not text then return nil end
  local rates, any = {}, false
  for n in string.gmatch(text, '%d+') do
    rates[#rates + 1] = tonumber(n)
    any = any or n ~= '0'
  end
  return any and rates or nil
end

-- tube_rates returns the rates of a tube by its policy: those of its jobs, and of its webhook.
local function tube_rates(policy)
  local rates = rates_of(policy.rate)
  if not policy.push_rate then return rates end
  rates = rates or { 0, 0, 0 }
  for k, period in ipairs(PERIODS) do
    if period == policy.push_every and (rates[k] == 0 or rates[k] > policy.push_rate) then rates[k] = policy.push_rate end
  end
  return rates
end

-- policy_for returns the policy of a tube if any policy limits starts; else an empty one.
local function policy_for(tube)
  return limited and string.find(limited, 'p') and SLOW.has_policy(tube) and SLOW.policy_of(tube) or {}
end

-- set_limits sets the limits of a tube to those of its policy. group-tubes has them as a text, LIMIT
-- RATES STRICT GROUP-LIMIT GROUP-RATES, each rate as 0 or as N,N,N, and the generation if there is one; ''
-- if the policy must be looked up. It returns whether the text says what applies.
local function set_limits(t, text)
  local limit, rates, strict, group_limit, group_rates, of = string.match(text or '', '^(%d+) ([%d,]+) (%d) (%d+) ([%d,]+) ?(%d*)$')
  if limit and of == generation() then
    t.limit, t.rates, t.strict, t.group_limit, t.group_rates = tonumber(limit), rates_of(rates), strict == '1', tonumber(group_limit), rates_of(group_rates)
    return true
  end
  local policy = policy_for(t.name)
  t.limit, t.rates, t.strict = policy.concurrency or 0, tube_rates(policy), policy.group_order == STRICT
  t.group_limit, t.group_rates = t.strict and 1 or policy.group_concurrency or 0, rates_of(policy.group_rate)
  return false
end

-- limits_text returns that text for a tube, without the generation.
local function limits_text(t)
  return format('%d %s %d %d %s', t.limit, concat(t.rates or { '0' }, ','), t.strict and 1 or 0, t.group_limit, concat(t.group_rates or { '0' }, ','))
end

-- note_limits writes that text for a tube, which has jobs with groups, and returns whether it had none.
local function note_limits(t)
  local of = generation()
  return call('HSET', PREFIX .. 'group-tubes', t.name, limits_text(t) .. (of == '' and '' or ' ' .. of)) == 1
end

-- renew_limits replaces the text of a tube, which is outdated. If other limits apply than it says, a tick
-- looks at the groups again, see due.lua.
local function renew_limits(t, text)
  note_limits(t)
  if string.match(text, '^%d+ [%d,]+ %d %d+ [%d,]+') == limits_text(t) then return end
  t.renewed = true
  call('HSET', PREFIX .. 'rescans', t.name, '')
  call('ZADD', PREFIX .. 'timers', format('%.0f', NOW), 'g:' .. t.name)
  SLOW.note_due(NOW)
end

-- tube_of returns what the call knows of a tube, which need not exist.
local function tube_of(tube)
  if tubes[tube] then return tubes[tube] end
  local text = limited and string.find(limited, 'g') and call('HGET', PREFIX .. 'group-tubes', tube)
  local t = {
    name = tube, jobs = PREFIX .. 'lane-jobs:' .. tube, ready = PREFIX .. 'lane-ready:' .. tube,
    reserved = PREFIX .. 'lane-reserved:' .. tube, lanes = PREFIX .. 'lanes:' .. tube, eligible = PREFIX .. 'eligible:' .. tube,
    lone = PREFIX .. 'lone:' .. tube, lone_ready = LONE_READY .. tube,
    lane = {}, dirty = {}, counted = {}, windows = {}, rechecks = {}, unwritten = {}, listed = text and true or false,
  }
  tubes[tube] = t
  if not set_limits(t, text) and text then renew_limits(t, text) end
  return t
end

-- find_tube returns what the call knows of a tube if it has limits or jobs with groups; else nil.
local function find_tube(tube)
  if tubes[tube] ~= nil then return tubes[tube] or nil end
  if not limited then return nil end
  local t = tube_of(tube)
  if not t.listed and t.limit == 0 and not t.rates then tubes[tube] = false end
  return tubes[tube] or nil
end

-- forget_tubes lets everything be read again, because policies have changed.
function G.forget_tubes()
  update_indexes()
  for tube in pairs(tubes) do tubes[tube] = nil end
end

-- list_tube notes that a tube has jobs with groups.
local function list_tube(t)
  if t.listed then return end
  t.listed = true
  if note_limits(t) and not (limited and string.find(limited, 'g')) then set_flags() end
end

-- unlist_tube notes that a tube has no jobs with groups any more, if that is so.
local function unlist_tube(t)
  t.thinned = false
  if call('EXISTS', t.jobs, t.reserved, t.lone) > 0 then return end
  call('DEL', t.lanes)
  t.listed, t.counter = false, nil
  call('HDEL', PREFIX .. 'group-tubes', t.name)
  set_flags()
end

-- has_hash returns whether a hash of a tube exists, such as heads:TUBE. Each is looked up once in a
-- call.
local function has_hash(t, hash)
  if t[hash] == nil then t[hash] = call('EXISTS', PREFIX .. hash .. ':' .. t.name) == 1 end
  return t[hash]
end

-- Turns are texts of 25 digits. A job that is put gives its lane its ID and NO_SUB; any other turn is
-- the last ID so far and a number. So the turns of jobs that are put need not be written, see lone.lua.
local NO_SUB = '000000000'
local NO_TURN = string.rep('0', ID_LENGTH) .. NO_SUB

-- read_turns reads the last turn of a tube that was no ID, and the turn of its plain lane.
local function read_turns(t)
  if t.counter then return end
  local counter, plain = string.match(call('HGET', t.lanes, '') or '', '^(%d+) (%d+)$')
  t.counter, t.plain_turn = counter or NO_TURN, plain or NO_TURN
end

-- last_put returns the ID of the last job that was put, or could have been.
local last_number
local function last_put()
  if ARGV[4] == '0' then last_number = last_number or tonumber(call('HGET', COUNTS, 'ids') or 0) end
  return format(ID_FORMAT, (last_number or first_number - 1 + sum.puts) * partitions + partition)
end

-- next_turn returns the turn of a lane that gets behind all others.
local function next_turn(t)
  read_turns(t)
  local last, sub_number = last_put(), 1
  if last .. NO_SUB < t.counter then
    last, sub_number = sub(t.counter, 1, ID_LENGTH), sub(t.counter, ID_LENGTH + 1) + 1
  end
  t.counter, t.turned = last .. format('%09d', sub_number), true
  return t.counter
end

-- turn_of returns the turn of a lane whose job with that ID was just put.
local function turn_of(t, id)
  read_turns(t)
  local turn = id .. NO_SUB
  return turn > t.counter and turn or next_turn(t)
end

-- plain_ready is called before jobs without a group become ready in a tube; id is the ID of the first
-- of them if it exists already, else nil.
function G.plain_ready(tube, id)
  local t = find_tube(tube)
  if not t or not t.listed or call('EXISTS', READY .. tube) == 1 then return end
  t.plain_turn = id and turn_of(t, id) or next_turn(t)
  t.turned = true
end

-- reserved_in returns how many jobs of a tube are reserved.
local function reserved_in(t)
  SLOW.write_counters()
  local have = call('HMGET', PREFIX .. 'tube:' .. t.name, 'total', 'deletes', 'joined', 'pending')
  local left = (have[1] or 0) - (have[2] or 0) - (have[3] or 0) - (have[4] or 0)
  for _, queue in ipairs({ 'ready:', 'lane-ready:', 'lone-ready:', 'delayed:', 'buried:' }) do left = left - call('ZCARD', PREFIX .. queue .. t.name) end
  return left
end
