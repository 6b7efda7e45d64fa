-- Puts with tags.

-- enter_new makes a job that was written, as a ready one, due: in so many ms, or at a time, by
-- the clock of Redis.
local function enter_new(key, how, ms)
  local j = load(key)
  local wait = ms
  if how == 'at' then wait = math.max(ms - NOW, 0) end
  if wait > 0 then
    wait_for(j, wait)
  else
    enter_ready(j)
  end
end

-- is_taken returns whether a put must make no job because its key is taken, and answers that.
local function is_taken(tube, key, what)
  if what == REPLACE then return false end
  local other, state = by_key(tube, key), 'gone'
  local number = other and sub(other, #PREFIX + 1) or kept_for(tube, key)
  if not number then return false end
  if other then
    local j = load(other)
    locate(j, false)
    state = j.state
  end
  answer(what == FAIL and PUT_DUPLICATE or PUT_KEPT)
  answer(number)
  answer_text(state)
  return true
end

-- put-tagged: a new job with tags, unless its key is taken or the tube has no room
--
-- ARGV    'put-tagged', tube, known, key, on_duplicate, how, ms, size, record
--           known         1 if the tube is sure to exist
--           key           '' if it has none
--           on_duplicate  a tube.OnDuplicate
--           how, ms       'in' and how many ms from now it is due, 'at' and when
--           size          of the body, bytes
--           record        of a ready job, with facts
-- Keys    writes the record, ready: or delayed:TUBE, timers, keys:TUBE, key:TUBE KEY, tube:TUBE,
--         counts; reads policies, quotas; removes the job that had the key, as delete-key
-- Answer  PUT_NEW, whose number follows from the first one, which each reply has, and the id of
--         the job that was replaced, if it was reserved, else 0; PUT_KEPT or PUT_DUPLICATE, id
--         and state of the other job, 'gone' if only its key is taken; or PUT_REFUSED
OPS['put-tagged'] = function(i)
  local tube, key, what, record = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 7]
  local size, quota, policy = tonumber(ARGV[i + 6]), quota_of(tube), OPS.policy_of(tube)
  if what == 0 and policy then what = policy.on_duplicate end
  if is_taken(tube, key, what) then
    drop_put(record)
    return i + 8
  end
  local had = by_key(tube, key)
  local old = had and load(had)
  if quota and not has_room(tube, quota, size, old and size_of(old)) then
    answer(PUT_REFUSED)
    drop_put(record)
    return i + 8
  end
  totals[tube], bytes[tube], sum.changed = (totals[tube] or 0) + 1, (bytes[tube] or 0) + size, true
  local job, held = new_job(record), 0
  write_new_jobs()
  if ARGV[i + 1] ~= '1' then OPS.put_in(tube) end
  if old and remove(old) then held = sub(old.key, #PREFIX + 1) end
  if key ~= '' then give_key(tube, key, job) end
  enter_new(job, ARGV[i + 4], tonumber(ARGV[i + 5]))
  answer(PUT_NEW)
  answer(held)
  return i + 8
end
