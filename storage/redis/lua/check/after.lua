-- What the check of jobs knows of batches of jobs: members, and the after-jobs that wait for one.

-- members is what the reply says of members.
local members = {}

-- require_record checks that a batch has a record. A new one is due, so that it is settled.
local function require_record(key, name)
  work = work + 1
  if call('HEXISTS', PREFIX .. 'job-batches', name) == 1 then return end
  note('job ' .. id_text(key) .. ': its batch ' .. name .. ' is not known')
  if not REPAIR then return end
  local now = string.format('%.0f', call('TIME')[1] * 1000)
  call('HSET', PREFIX .. 'job-batches', name, now .. ' 0 0 0 0 0 0 0 0 0 ' .. now)
  call('ZADD', PREFIX .. 'job-batch-names', '0', name)
  call('ZADD', PREFIX .. 'job-batch-dues', now, name)
end

-- state_of returns the state of a job by the queue in which it is; of one on its way to another tube that which it
-- will have there.
local function state_of(key, queue)
  if queue ~= 'pending' then return string.match(queue, '^[%l-]+') end
  local text = call('HGET', PREFIX .. 'pending', id_text(key)) or ''
  return string.match(text, '^%S+ (%l+) %d+ ') or 'buried'
end

-- check_held checks that a delayed job has the score of those that wait, if it does, and no other one.
local function check_held(key, j, score)
  if (score == HELD_SCORE) == (j.after ~= nil) then return end
  note('job ' .. id_text(key) .. (j.after and ': it waits for the batch ' .. j.after .. ', and is due' or ': it waits for no batch, and is never due'))
  if not REPAIR then return end
  call('ZADD', PREFIX .. 'delayed:' .. j.tube, j.after and HELD_SCORE or string.format('%.0f', call('TIME')[1] * 1000), key)
  call('ZADD', PREFIX .. 'timers', '0', 'd:' .. j.tube)
end

-- check_after checks that a batch knows an after-job, by the right number, see jobbatches/members.lua.
local function check_after(key, j, queue, state)
  if state ~= 'delayed' and state ~= 'buried' then
    note('job ' .. id_text(key) .. ': it waits for the batch ' .. j.after .. ', and is ' .. state)
    j.metadata.after_void = true
    if REPAIR then call('SETRANGE', key, string.format('%d', call('STRLEN', key) - CHANGING), pack_changing(j.metadata)) end
    return
  end
  local number = j.metadata.after_all + (state == 'buried' and 2 or 0) + (queue == 'pending' and 4 or 0)
  local is = call('ZSCORE', PREFIX .. 'after:' .. j.after, key)
  work = work + 1
  require_record(key, j.after)
  if is and tonumber(is) == number then return end
  note('job ' .. id_text(key) .. ': the batch ' .. j.after .. ' does not know its state')
  if REPAIR then call('ZADD', PREFIX .. 'after:' .. j.after, string.format('%d', number), key) end
end

-- check_batches checks what concerns batches of a job with metadata, which is in a queue with that score.
local function check_batches(key, j, queue, score)
  local f = j.metadata
  local state = state_of(key, queue)
  if queue == 'delayed:' .. j.tube then check_held(key, j, score) end
  if j.after then check_after(key, j, queue, state) end
  if not f.batch then return end
  require_record(key, f.batch)
  local parked = state == 'buried' or f.from_tube ~= '' and f.from_tube ~= j.tube
  for _, text in ipairs({ key, f.batch, parked and 'parked' or 'pending' }) do members[#members + 1] = text end
end
