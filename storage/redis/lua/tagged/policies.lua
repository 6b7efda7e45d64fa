-- Policies and quotas of tubes.

--include data: policies

local function numbers(value)
  local list = {}
  for n in string.gmatch(value, '%d+') do list[#list + 1] = tonumber(n) end
  return list
end

local READ_POLICY = { number = tonumber, text = tostring, list = numbers }

-- complete adds what a policy lacks from the text of another one, see policy.go. doubled
-- belongs to the retry of the same one.
local function complete(policy, text)
  local waits = policy.retry == nil
  for name, value in string.gmatch(text, '([%l-]+):(%S*)') do
    local field = POLICY_FIELD[name]
    if policy[field] == nil and (name ~= 'doubled' or waits) then policy[field] = READ_POLICY[POLICY_KIND[name]](value) end
  end
end

-- is_pattern returns whether a policy is for all tubes that begin with what is before a *.
local function is_pattern(name) return sub(name, -1) == '*' end

-- policy_texts returns the texts of the policies that apply to a tube: its own, that of the
-- longest prefix, and so on.
local any_prefix
local function policy_texts(tube)
  local texts, patterns = { call('HGET', PREFIX .. 'policies', tube) or nil }, {}
  if any_prefix == nil then any_prefix = call('EXISTS', PREFIX .. 'prefixes') == 1 end
  if not any_prefix then return texts end
  for n = #tube, 0, -1 do patterns[#patterns + 1] = sub(tube, 1, n) .. '*' end
  for _, text in ipairs(call('HMGET', PREFIX .. 'prefixes', unpack(patterns))) do
    if text then texts[#texts + 1] = text end
  end
  return texts
end

-- policy_of returns the policy that applies to a tube, nil if there is none: a table with the fields of POLICY_FIELD
-- that are set. max, dead and on_duplicate are 0, '' and 0 if they are not.
function SLOW.policy_of(tube)
  if any_policy == false then return nil end
  if policies[tube] == nil then
    local policy, texts = {}, policy_texts(tube)
    for _, text in ipairs(texts) do complete(policy, text) end
    policies[tube] = texts[1] ~= nil and policy
    policy.on_duplicate = policy.on_duplicate or 0
  end
  return policies[tube] or nil
end

-- own_rules returns the metadata of a job, for the rules in it: those of its put. A dead letter keeps them for when
-- it is back; until then it has none.
local NO_RULES = { flags = 0 }
local function own_rules(j)
  local f = metadata_of(j)
  if not f or f.from_tube ~= '' and f.from_tube ~= j.tube then return NO_RULES end
  return f
end

-- rules_of returns the rules that apply to a job, a table with those of RULES that are set: its own, and for the rest
-- those of its tube. max and dead are 0 and '' if they are not set.
local function rules_of(j)
  local f, p, rules = own_rules(j), SLOW.policy_of(j.tube) or NO_RULES, {}
  for _, name in ipairs(RULES) do
    rules[name] = f[name]
    if rules[name] == nil then rules[name] = p[name] end
  end
  rules.doubled = (f.retry and f or p).doubled -- it belongs to the retry of the same one
  rules.max, rules.dead = rules.max or 0, rules.dead or ''
  return rules
end

-- has_room returns whether the quotas of a tube allow one more job with a body of that size.
-- without is the size of the body and the checkpoint of a job that would be replaced, nil if none.
local function has_room(tube, limits, size, without)
  local most_jobs, most_bytes = limits.quota_jobs, limits.quota_bytes
  if not most_jobs and not most_bytes then return true end
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'bytes')
  for k = 1, 3 do have[k] = tonumber(have[k] or 0) end
  local jobs = have[1] - have[2] + (totals[tube] or 0) - (deletes[tube] or 0) - (without and 1 or 0)
  local used = have[3] + (bytes[tube] or 0) - (without or 0)
  return (not most_jobs or jobs < most_jobs) and (not most_bytes or used + size <= most_bytes)
end

-- drop_put is called for a put that makes no job: its record is '' if it was staged.
local function drop_put(record)
  sum.unput = sum.unput + 1
  if record ~= '' then return end
  adopted = adopted + 1
  call('DEL', STAGED .. adopted)
end
SLOW.drop_put = drop_put

-- block_size returns the size of the metadata block at the end of a record that is put, in bytes.
local function block_size(record)
  local last = record ~= '' and sub(record, -2) or call('GETRANGE', STAGED .. adopted + 1, '-2', '-1')
  return struct.unpack('>I2', last) + 2
end

-- admit_record returns whether the quotas of a tube admit a job, which then counts as put. Else it is
-- refused, and its index is added to refused.
local refused = {}
function SLOW.admit_record(tube, limits, record, has_metadata)
  local size = (record ~= '' and #record or call('STRLEN', STAGED .. adopted + 1)) - NAME_AT + 1 - #tube
  if has_metadata then size = size - block_size(record) end
  if has_room(tube, limits, size) then
    totals[tube], bytes[tube] = (totals[tube] or 0) + 1, (bytes[tube] or 0) + size
    return true
  end
  drop_put(record)
  refused[#refused + 1] = format('%d;', sum.puts + sum.unput)
  return false
end

-- return_numbers gives back the numbers that puts did not need, and adds the refused puts to
-- the reply. If other numbers have been taken after them, no job gets them.
function SLOW.return_numbers()
  local by = format('%d', sum.unput)
  if sum.more_numbers then
    call('HINCRBY', COUNTS, 'skipped', by)
  else
    call('HINCRBY', COUNTS, 'ids', '-' .. by)
  end
  if #refused > 0 then sum.refused = format('%d;', #refused) .. concat(refused) end
end

-- set-policy: sets or removes the policy of a tube or a pattern
--
-- ARGV    'set-policy', name, text, limits, starts, keeps
--           name    of the tube, or the pattern
--           text    see policy.go; '' for none
--           limits  what concerns puts: quotas, 'JOBS BYTES', - where there is none; '' if nothing does
--           starts  1 if it limits which jobs may start, else 0
--           keeps   what concerns records of ended jobs, 'KEEP BYTES', - where nothing is said; '' if nothing does
-- Keys    writes policies and quotas; of a pattern prefixes and prefix-limits; limit-policies,
--         limited, group-tubes, rescans, timers, keep-policies, keeping, counts
-- Answer  1
OPERATIONS['set-policy'] = function(i)
  local name = ARGV[i]
  local keys = is_pattern(name) and { 'prefixes', 'prefix-limits' } or { 'policies', 'quotas' }
  for k, key in ipairs(keys) do
    if ARGV[i + k] == '' then
      call('HDEL', PREFIX .. key, name)
    else
      call('HSET', PREFIX .. key, name, ARGV[i + k])
    end
  end
  SLOW.set_keep(name, ARGV[i + 4])
  local starts = ARGV[i + 3] == '1'
  if starts or limited then SLOW.groups().policy_changes(name, starts) end
  for tube in pairs(policies) do policies[tube] = nil end
  any_policy, any_prefix, any_quota, sum.changed = nil, nil, nil, true
  if starts or limited then SLOW.groups().policy_changed(name) end
  answer(1)
  return i + 5
end

-- get-policy: returns the policy of a tube or a pattern itself
--
-- ARGV    'get-policy', name
-- Keys    reads policies or prefixes
-- Answer  1 and its text; 0 if there is none
OPERATIONS['get-policy'] = function(i)
  local text = call('HGET', PREFIX .. (is_pattern(ARGV[i]) and 'prefixes' or 'policies'), ARGV[i])
  answer(text and 1 or 0)
  if text then answer_text(text) end
  return i + 1
end

-- policies: returns the tubes and patterns that have a policy
--
-- ARGV    'policies'
-- Keys    reads policies, prefixes
-- Answer  how many, and their names
OPERATIONS['policies'] = function(i)
  local names = call('HKEYS', PREFIX .. 'policies')
  for _, pattern in ipairs(call('HKEYS', PREFIX .. 'prefixes')) do names[#names + 1] = pattern end
  SLOW.answer_names(names)
  return i
end
