-- Policies and quotas of tubes.

-- policy_of returns the policy of a tube, nil if it has none: a table with retry, max, dead and
-- key_ttl like that of unpack_metadata, and on_duplicate, a number. The hash policies has
-- texts, see policy.go.
function OPS.policy_of(tube)
  if policies[tube] == nil then
    local text = any_policy ~= false and call('HGET', PREFIX .. 'policies', tube)
    policies[tube] = text and { max = 0, dead = '', on_duplicate = 0 } or false
    for name, value in string.gmatch(text or '', '([%l-]+):(%S*)') do
      local policy = policies[tube]
      if name == 'dead' then
        policy.dead = value
      elseif name == 'retry' then
        policy.retry = {}
        for ms in string.gmatch(value, '%d+') do policy.retry[#policy.retry + 1] = tonumber(ms) end
      else
        policy[string.gsub(name, '-', '_')] = tonumber(value)
      end
    end
  end
  return policies[tube] or nil
end

-- rules_of returns the rules of a job: its own, and for the rest those of its tube.
local function rules_of(j)
  local f, p = metadata_of(j) or { max = 0, dead = '' }, OPS.policy_of(j.tube) or { max = 0, dead = '' }
  local waits = f.retry and f or p
  return {
    retry = waits.retry, doubled = waits.doubled, jitter = f.jitter or p.jitter, on_expire = f.on_expire or p.on_expire, max = f.max > 0 and f.max or p.max, dead = f.dead ~= '' and f.dead or p.dead,
    key_ttl = f.key_ttl or p.key_ttl,
  }
end

-- has_room returns whether the quotas of a tube allow one more job with a body of that size.
-- without is the size of the body of a job that would be replaced, nil if none.
local function has_room(tube, quota, size, without)
  local most_jobs, most_bytes = string.match(quota, '(%S+) (%S+)')
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes', 'bytes')
  for k = 1, 3 do have[k] = tonumber(have[k] or 0) end
  local jobs = have[1] - have[2] + (totals[tube] or 0) - (deletes[tube] or 0) - (without and 1 or 0)
  local used = have[3] + (bytes[tube] or 0) - (without or 0)
  return (most_jobs == '-' or jobs < tonumber(most_jobs)) and (most_bytes == '-' or used + size <= tonumber(most_bytes))
end

-- drop_put is called for a put that makes no job: its record is '' if it was staged.
local function drop_put(record)
  sum.unput = sum.unput + 1
  if record ~= '' then return end
  adopted = adopted + 1
  call('DEL', STAGED .. adopted)
end

-- admit_record returns whether the quotas of a tube admit a job without metadata, which then
-- counts as put. Else it is refused, and its index is added to refused.
local refused = {}
function OPS.admit_record(tube, quota, record)
  local size = (record ~= '' and #record or call('STRLEN', STAGED .. adopted + 1)) - NAME_AT + 1 - #tube
  if has_room(tube, quota, size) then
    totals[tube], bytes[tube] = (totals[tube] or 0) + 1, (bytes[tube] or 0) + size
    return true
  end
  drop_put(record)
  refused[#refused + 1] = format('%d;', sum.puts + sum.unput)
  return false
end

-- put_limited is the operation put for a tube with quotas. i is the index of its arguments. It
-- returns the index of its last argument.
function OPS.put_limited(i, quota)
  local tube, n, pri, first = ARGV[i], tonumber(ARGV[i + 2]), ARGV[i + 5], i + 7
  local step = pri == '' and 2 or 1
  for k = 0, n - 1 do
    local score, record = pri, ARGV[first + step * k + step - 1]
    if pri == '' then score = ARGV[first + 2 * k] end
    if OPS.admit_record(tube, quota, record) then
      call('ZADD', READY .. tube, score, new_job(record))
      if tonumber(score) < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
      wakeups[tube], sum.changed = (wakeups[tube] or 0) + 1, true
    end
  end
  return first + step * n - 1
end

-- return_numbers gives back the numbers that puts did not need, and adds the refused puts to
-- the reply. If other numbers have been taken after them, no job gets them.
function OPS.return_numbers()
  local by = format('%d', sum.unput)
  if sum.more_numbers then
    call('HINCRBY', COUNTS, 'skipped', by)
  else
    call('HINCRBY', COUNTS, 'ids', '-' .. by)
  end
  if #refused > 0 then sum.refused = format('%d;%d;', sum.changed and 3 or 2, #refused) .. concat(refused) end
end

-- set-policy: sets or removes the policy of a tube
--
-- ARGV    'set-policy', tube, text, quotas
--           text    see policy.go; '' for none
--           quotas  'JOBS BYTES', - where there is no limit; '' for none
-- Keys    writes policies, quotas
-- Answer  1
OPS['set-policy'] = function(i)
  local tube = ARGV[i]
  for key, text in pairs({ policies = ARGV[i + 1], quotas = ARGV[i + 2] }) do
    if text == '' then
      call('HDEL', PREFIX .. key, tube)
    else
      call('HSET', PREFIX .. key, tube, text)
    end
  end
  policies[tube], any_policy, any_quota, sum.changed = nil, nil, nil, true
  answer(1)
  return i + 3
end

-- get-policy: returns the policy of a tube
--
-- ARGV    'get-policy', tube
-- Keys    reads policies
-- Answer  1 and its text; 0 if there is none
OPS['get-policy'] = function(i)
  local text = call('HGET', PREFIX .. 'policies', ARGV[i])
  answer(text and 1 or 0)
  if text then answer_text(text) end
  return i + 1
end

-- policies: returns the tubes that have a policy
--
-- ARGV    'policies'
-- Keys    reads policies
-- Answer  how many, and their names
OPS['policies'] = function(i)
  local names = call('HKEYS', PREFIX .. 'policies')
  OPS.answer_names(names)
  return i
end
