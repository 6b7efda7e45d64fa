-- Puts of members and after-jobs.

local putting = {} -- what B.read has read

-- read reads the argument batches of a put with tags, and returns an object for that put:
--   batch, after  the names; nil if there is none
--   is_sealed()   whether the batch is sealed
--   join(key)     counts the new job as a member, and makes the records
--   hold(j)       puts it, which has no place yet, into that of jobs that wait; with f, the metadata of a job, one that was put before
function B.read(text)
  local ttl, all, length, names = string.match(text, '^(%d+);([01]);(%d+):(.*)$')
  length = tonumber(length)
  putting = { ttl = tonumber(ttl), batch = length > 0 and sub(names, 1, length) or nil, after = #names > length and sub(names, length + 1) or nil, after_all = tonumber(all),
    is_sealed = B.is_sealed, join = B.join, hold = B.hold }
  return putting
end

function B.is_sealed() return putting.batch and B.is_name_sealed(putting.batch) end

function B.join(key)
  if putting.batch then
    local b = make(putting.batch, putting.ttl)
    count(b, 'pending')
    add_members(b, key, 1)
    changed(b)
  end
  if putting.after then
    local b, is_new = make(putting.after, putting.batch and 0 or putting.ttl)
    if is_new or b.verdict ~= OPEN or b.sealed and b.pending == 0 or b.gone > 0 then due_now(b) end
  end
end

function B.hold(j, f)
  j.state = 'delayed'
  call('ZADD', PREFIX .. 'delayed:' .. j.tube, HELD_SCORE, j.key)
  sum.delayed = sum.delayed + 1
  if j.group then SLOW.groups().entered(j, j.group) end
  add_after(f or putting, j.key, j.state)
end

-- is_name_sealed returns whether there is a batch with a name that is sealed.
function B.is_name_sealed(name)
  local b = record_of(name)
  return b and b.sealed
end

-- join_all counts new jobs as members, and makes the record; consecutive says that their numbers are.
function B.join_all(name, ttl, keys, consecutive)
  local b = make(name, ttl)
  for k = 1, consecutive and 1 or #keys do add_members(b, keys[k], consecutive and #keys or 1) end
  b.pending, b.stamp = b.pending + #keys, b.stamp + #keys
end
