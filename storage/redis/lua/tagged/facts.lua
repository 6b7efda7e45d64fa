-- Blocks of facts. j.facts is that of a job, as unpack_facts returns it, once facts_of or
-- change_facts has been called.

-- facts_of returns the facts of a job, nil if it has none. If the block is broken, which fsck
-- tells, the job is one without.
local function facts_of(j)
  if j.has_facts and not j.facts then
    j.facts = unpack_facts(call('GETRANGE', j.key, format('%d', -MOST_FACTS), '-1'))
    j.has_facts = j.facts ~= nil
  end
  return j.facts
end

-- facts_size returns how many bytes the block of a job has.
function OPS.facts_size(j)
  local f = facts_of(j)
  return f and f.length + 2 or 0
end

-- change_facts returns the facts of a job, to be changed and then written by save_facts. A job
-- without any gets a block.
local function change_facts(j)
  if facts_of(j) then return j.facts end
  local f = { key = '', max = 0, dead = '', from_tube = '', from_id = 0, parked = NOT_PARKED, failures_before = 0,
    deliveries_before = 0, lease = 0, length = CHANGING }
  local block = '\0\0' .. pack_changing(f)
  if length_of(j.key) < LARGE then
    call('SET', j.key, call('GET', j.key) .. block)
  else
    call('APPEND', j.key, block)
  end
  j.facts, j.has_facts, lengths[j.key] = f, true, nil
  return f
end

-- save_facts writes what has changed of the facts of a job. Its letter is written by save.
local function save_facts(j)
  call('SETRANGE', j.key, format('%d', length_of(j.key) - CHANGING), pack_changing(j.facts))
end

OPS.change_facts, OPS.save_facts = change_facts, save_facts

-- locate_tagged is the part of locate that is about leases and dead letters.
function OPS.locate_tagged(j)
  if j.state == 'reserved' then
    j.leased = call('ZSCORE', LEASES, j.key) ~= false
  elseif j.state == 'buried' and call('HEXISTS', PREFIX .. 'bound', sub(j.key, #PREFIX + 1)) == 1 then
    j.state = 'bound'
  end
end
