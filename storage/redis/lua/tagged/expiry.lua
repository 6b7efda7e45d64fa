-- Jobs that expire. The metadata of such a job has when. The sorted set expiring has it too, until
-- that time, for a tick: then ready and delayed jobs end. One that is reserved then ends when it
-- comes back, and a buried one does not expire. The time of an after-job begins when it waits for its batch no
-- longer: until then its metadata has when it would expire if it had not had to wait, and it is not in expiring.

local EXPIRING = PREFIX .. 'expiring'

-- is_over returns whether the time of a job is over.
local function is_over(j)
  local f = metadata_of(j)
  return f ~= nil and f.expires ~= nil and f.expires <= NOW and not f.after
end

-- add_expiry adds a job with this metadata to those that expire, if it is one of them; drop_expiry removes it.
function SLOW.add_expiry(key, f)
  if not f.expires or f.after then return end
  call('ZADD', EXPIRING, format('%.0f', f.expires), key)
  note_due(f.expires)
end

function SLOW.drop_expiry(j)
  local f = metadata_of(j)
  if f and f.expires then call('ZREM', EXPIRING, j.key) end
end

-- with_expiry returns a metadata block with a place for when the job expires, made of one without,
-- and whose fields are f.
local function with_expiry(f, block)
  local head, rest = sub(block, 1, f.more_end), sub(block, f.more_end + 1, -3)
  if f.more_end > f.more_at then
    head = sub(head, 1, f.more_at) .. string.char(string.byte(head, f.more_at + 1) + HAS_EXPIRES) .. sub(head, f.more_at + 2)
  else
    f.flags = f.flags + HAS_MORE
    head = string.char(f.flags) .. sub(head, 2) .. string.char(HAS_EXPIRES)
  end
  f.length, f.expires_at, f.more_end = #head + 8 + #rest, #head, #head + 8
  return head .. string.rep('\0', 8) .. rest .. struct.pack('>I2', f.length)
end

-- write_expiry writes when a job expires into its metadata; 0 for never.
local function write_expiry(j, at)
  local f = SLOW.change_metadata(j)
  local from = length_of(j.key) - f.length - 2
  if not f.expires_at then
    call('SETRANGE', j.key, format('%d', from), with_expiry(f, call('GETRANGE', j.key, format('%d', from), '-1')))
    lengths[j.key] = nil
  end
  call('SETRANGE', j.key, format('%d', from + f.expires_at), struct.pack('>I8', at))
  f.expires = at > 0 and at or nil
end

-- set_expiry decides when a job that was put expires, from when it is due. own is what its put
-- says, in ms, 0 for never, negative for a time; nil if it says nothing. The record must have been
-- written.
function SLOW.set_expiry(j, own, policy, due)
  local ms = own or policy and policy.expire or 0
  if ms == 0 then return false end
  local at = ms < 0 and -ms or due + ms
  write_expiry(j, at)
  SLOW.add_expiry(j.key, j.metadata)
  return true
end

-- start_expiry lets the time of a job begin, which waits for no batch any more.
function SLOW.start_expiry(j)
  local f = metadata_of(j)
  if not f.expires then return end
  write_expiry(j, f.expires + NOW_UP - j.created)
  SLOW.add_expiry(j.key, f)
end

-- expire_put does that for jobs that were put without tags, and are due after a delay in ms.
function SLOW.expire_put(keys, policy, delay)
  if (policy.expire or 0) <= 0 then return end
  write_new_jobs()
  for _, key in ipairs(keys) do
    local j = load(key)
    if SLOW.set_expiry(j, nil, policy, NOW_UP + delay) then save(j) end
  end
end

-- lapse deletes or parks a job, which is in no place, because its time is over.
local function lapse(j)
  local rules = rules_of(j)
  SLOW.note('expired', j.tube, 1)
  count_up(PREFIX .. 'tube:' .. j.tube, 'expired', 1)
  if rules.on_expire == EXPIRE_PARK then
    SLOW.park(j, PARKED_EXPIRED, rules.dead)
  else
    j.how = 'expired'
    delete(j)
  end
end

-- lapse_if_over is called for a job whose reservation has ended with an outcome. It returns
-- whether its time was over.
function SLOW.lapse_if_over(j, outcome)
  if outcome == REFUSED or not is_over(j) then return false end
  lapse(j)
  return true
end

-- live_on lets a job that is kicked after its time live on.
function SLOW.live_on(j)
  if is_over(j) then
    SLOW.drop_expiry(j)
    write_expiry(j, 0)
  end
end

-- expire_due ends the time of jobs that are due by upto, up to limit, and returns how many.
function SLOW.expire_due(upto, limit)
  local keys = call('ZRANGEBYSCORE', EXPIRING, '-inf', format('%.0f', upto), 'LIMIT', '0', format('%d', limit))
  if not keys[1] then return 0 end
  call('ZREM', EXPIRING, unpack(keys))
  sum.changed = true
  for _, key in ipairs(keys) do
    local j = load(key)
    if j then locate(j, false) end
    if j and (j.state == 'ready' or j.state == 'delayed') and is_over(j) then
      leave_place(j)
      lapse(j)
    end
  end
  return #keys
end
