-- Members and after-jobs. What a member counts as follows from its state: 'parked' if it is buried or a
-- dead letter, else 'pending'. j.was is that of a job before it left its place.
--
-- The sorted set after:BATCH has the after-jobs that wait for the batch or are parked because of it,
-- by one of these numbers: 0 for a held one, 2 for a parked one, plus 1 with after-all, plus 4 while it
-- is on its way to another partition.
local PARKED, ON_ITS_WAY = 2, 4

local function kind_of(f, tube, state)
  local dead = f.from_tube ~= '' and f.from_tube ~= tube
  return (dead or state == 'buried') and 'parked' or 'pending'
end

-- count counts one more member of a kind, uncount one less.
local function count(b, kind)
  b[kind] = b[kind] + 1
  if kind == 'pending' then b.stamp = b.stamp + 1 end
end

local function uncount(b, kind) b[kind] = math.max(b[kind] - 1, 0) end

-- shift counts a member as another kind than before.
local function shift(b, was, is)
  if not b or was == is then return end
  count(b, is)
  uncount(b, was)
  changed(b)
end

local function batch_of(f) return f.batch and record_of(f.batch) end

-- add_after adds an after-job to those of its batch; more is added to its number.
local function add_after(f, key, state, more)
  local number = f.after_all + (more or 0) + (state == 'buried' and PARKED or 0)
  call('ZADD', AFTER .. f.after, format('%d', number), key)
end

-- left is called when a job has left the place of its state, or is about to.
function B.left(j)
  local f = j.metadata
  j.was = kind_of(f, j.tube, j.state)
  if f.after then call('ZREM', AFTER .. f.after, j.key) end
end

-- left_pending is called for a job on its way to another tube that is about to be removed.
function B.left_pending(j)
  local f, text = j.metadata, call('HGET', PREFIX .. 'pending', sub(j.key, #PREFIX + 1)) or ''
  local state = string.match(text, '^%S+ (%l+) %d+ ')
  j.was = state and kind_of(f, j.tube, state) or 'parked'
end

-- entered is called when a job has entered a state. Unless a settlement has done that, it waits for no
-- batch any more.
function B.entered(j)
  local f = j.metadata
  if f.after and not j.settled then
    f.after, f.after_void = nil, true
    SLOW.save_metadata(j)
    SLOW.start_expiry(j)
  end
  if j.was then
    local is = kind_of(f, j.tube, j.state)
    shift(batch_of(f), j.was, is)
    j.was = is
  end
end

-- end_member counts the end of a member.
local function end_member(b, j)
  local how = j.ends or 'gone'
  uncount(b, j.was or kind_of(j.metadata, j.tube, j.state))
  if how == 'done' or how == 'gone' then b[how] = b[how] + 1 end
  changed(b)
  if how == 'gone' and b.gone == 1 then due_now(b) end
end

-- drop_unused removes a record if only withdrawn jobs have named the batch.
local function drop_unused(b)
  if not b or b.sealed or b.pending + b.parked + b.done + b.gone > 0 or call('ZCARD', AFTER .. b.name) > 0 then return end
  remove_record(b)
end

-- ended is called before the record of a job is deleted, see SLOW.ended_batch.
function B.ended(j)
  local f = j.metadata
  if f.after then call('ZREM', AFTER .. f.after, j.key) end
  local b = batch_of(f)
  if b then end_member(b, j) end
  if j.ends ~= 'withdrawn' then return end
  drop_unused(b)
  if f.after then drop_unused(record_of(f.after)) end
end

-- moved is called for a job in whose place there is a new one, in a tube of this partition and in a state.
function B.moved(j, state, to, new)
  local f, b = j.metadata, batch_of(j.metadata)
  if f.after then
    call('ZREM', AFTER .. f.after, j.key)
    add_after(f, new, state)
  end
  if not b then return end
  shift(b, j.was or 'parked', kind_of(f, to, state))
  add_members(b, new, 1)
end

-- sent is called when a job is on its way to another tube, in which it will have a state.
function B.sent(j, state)
  if j.metadata.after then add_after(j.metadata, j.key, state, ON_ITS_WAY) end
end

-- sent_here is called when a dead letter was made of a member, which is about to be deleted.
function B.sent_here(j, key)
  local b = record_of(j.metadata.batch)
  if not b then return end
  count(b, 'parked')
  add_members(b, key, 1)
end

-- arrived is called for a new job, whose place was in another partition, with its state.
function B.arrived(j, state)
  local f = j.metadata
  if f.batch then
    local b = make(f.batch, 0)
    count(b, kind_of(f, j.tube, state))
    add_members(b, j.key, 1)
    changed(b)
  end
  if f.after then
    add_after(f, j.key, state)
    due_now((make(f.after, 0)))
  end
end
