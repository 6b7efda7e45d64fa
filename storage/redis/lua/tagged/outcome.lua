-- What happens to a job after a reservation: whether it is delayed, or parked.

-- wait_for makes a job, which is in no place, due in that many ms, and writes it.
local function wait_for(j, ms)
  j.delay = math.min(math.ceil(ms / 1000), 4294967295)
  if ms > 0 then
    enter_later(j, ms / 1000)
  else
    enter(j, 'ready')
  end
  save(j)
end

-- more_key returns the key in Redis of a new job that is not one of the call's puts.
local function more_key()
  local number = count_up(COUNTS, 'ids', 1)
  sum.more_numbers = true
  return key_of_number(number * partitions + partition)
end
SLOW.more_key = more_key

-- dead_rules returns the own rules of a job as they are in its metadata block: those before HAS_FROM with their
-- flags, those after HAS_MORE with theirs, and the still more.
local function dead_rules(j, block)
  local own = own_rules(j)
  local rules = own.from_at and sub(block, 3 + string.byte(block, 2), own.from_at) or ''
  local more = own.rules_end and sub(block, own.more_at + 2, own.rules_end) or ''
  return rules, own.flags % HAS_FROM, more, own.more_rules or 0, own.still
end

-- dead_record returns the record of a dead letter in its new tube: its header, the tube, the
-- body, and metadata with a key, its origin, its own rules from its block, and the group, the occurrence, the batch, the
-- headers, the reason and the past in f.
local function dead_record(j, f, tube, key, body, block)
  local head = pack_header({
    letter = 'r', ttr = j.ttr, pri = j.pri, delay = 0, created = NOW, reserves = 0, timeouts = 0, releases = 0,
    buries = 0, kicks = 0, name_length = #tube,
  })
  local rules, flags, more_rules, more, still = dead_rules(j, block)
  more = more + (f.group and HAS_GROUP or 0) + (f.occurrence and HAS_OCCURRENCE or 0) + (f.batch and HAS_BATCH or 0)
  flags = flags + HAS_FROM + (more > 0 and HAS_MORE or 0) + (f.headers and HAS_HEADERS or 0) + HAS_REASON
  local from = struct.pack('BBc0', flags, #key, key) .. rules .. struct.pack('>Bc0I8', #j.tube, j.tube, tonumber(sub(j.key, #PREFIX + 1)))
  if more > 0 then from = from .. string.char(more) .. more_rules end
  if f.group then from = from .. struct.pack('Bc0', #f.group, f.group) end
  from = from .. (f.occurrence or '')
  if f.batch then from = from .. struct.pack('Bc0', #f.batch, f.batch) end
  from = from .. (f.headers or '') .. (still or '') .. REASON.pack(SLOW.past_of_dead(f, j.created))
  local changing = { still = still, reports = f.reports, parked = NOT_PARKED, failures_before = 0, deliveries_before = 0, lease = 0, length = #from + CHANGING - 2 }
  return head .. tube .. body .. from .. pack_changing(changing)
end

-- send_here creates a new job from j, which is in no place, in its dead-letter tube, which is
-- in this partition, and deletes j. The new job gets its key, unless that is taken there.
local function send_here(j, tube)
  local f, raw = metadata_of(j) or { key = '', length = -2, past = '' }, call('GET', j.key)
  local body = sub(raw, NAME_AT + #j.tube, #raw - f.length - 2)
  local key = by_key(tube, f.key) and '' or f.key
  local dead = { tube = tube, pri = j.pri, key = more_key(), group = f.group or false }
  if f.reports then SLOW.hand_over_reports(j, dead.key, tube) end
  call('SET', dead.key, dead_record(j, f, tube, key, body, sub(raw, #raw - f.length - 1)))
  if key ~= '' then give_key(tube, key, dead.key) end
  totals[tube], bytes[tube] = (totals[tube] or 0) + 1, (bytes[tube] or 0) + #body
  SLOW.note('puts', tube, 1)
  enter_ready(dead)
  SLOW.put_in(tube)
  if f.batch then SLOW.job_batches().sent_here(j, dead.key) end
  j.ends, j.how, j.to_tube, j.to_id = 'moved', 'dead', tube, tonumber(sub(dead.key, #PREFIX + 1))
  delete(j)
end

-- park buries a job, which is in no place, and records why, or sends it to its dead-letter
-- tube.
local function park(j, why, tube)
  SLOW.note('parked', j.tube, 1)
  if tube ~= '' and tube ~= j.tube and partition_of(tube) == partition and length_of(j.key) < LARGE then
    send_here(j, tube)
    return
  end
  local f = change_metadata(j)
  f.parked = why
  if tube ~= '' and tube ~= j.tube then
    SLOW.set_pending(j, tube)
  else
    enter(j, 'buried')
  end
  save_metadata(j)
  save(j)
end
SLOW.park = park

-- notes_failures returns whether it is recorded that a delivery of a job fails, even if nobody says why. Other jobs are as in
-- beanstalkd, and cost nothing.
function SLOW.notes_failures(j)
  local f = metadata_of(j)
  if SLOW.policy_of(j.tube) then return true end
  return f and (f.flags > 0 or f.still or f.key ~= '' or f.parked ~= NOT_PARKED or f.failures_before + f.deliveries_before + f.lease > 0
    or f.reports and (SLOW.checkpoint_size(j) > 0 or SLOW.progress_of(j) ~= ''))
end

-- come_back puts a job that was reserved, and is in no place any more, where its rules say, and
-- writes it. A release with a delay has that delay, and not the one of the rules.
function SLOW.come_back(j, arrow)
  if SLOW.lapse_if_over(j, ARROW_ENDS[arrow]) then return end
  if sum.ended_by_server then
    enter(j, 'ready')
    save(j)
    return
  end
  local f = metadata_of(j) or { failures_before = 0, deliveries_before = 0 }
  local rules = rules_of(j)
  local failures = (j.releases + j.timeouts - f.failures_before) % 4294967296
  local deliveries = (j.reserves - f.deliveries_before) % 4294967296
  local parked, wait = after(rules, tonumber(sub(j.key, #PREFIX + 1)), ARROW_ENDS[arrow], failures, deliveries)
  if parked ~= NOT_PARKED then
    park(j, parked, rules.dead)
  elseif ARROW_SETS_DELAY[arrow] and j.delay > 0 then
    enter(j, 'delayed')
    save(j)
  elseif wait > 0 then
    wait_for(j, wait)
  else
    enter(j, 'ready')
    save(j)
  end
end

-- because: carries out the next operation, a move, with a reason and the name of the holder
--
-- ARGV    'because', reason, holder, 'move' or 'move-leased', and the arguments of that
--           reason, holder  '' if they are not known
-- Keys    as that; writes the record
-- Answer  as that
OPERATIONS['because'] = function(i)
  sum.reason, sum.failed_holder = ARGV[i], ARGV[i + 1]
  local last = OPERATIONS[ARGV[i + 2]](i + 3)
  sum.reason, sum.failed_holder = nil, nil
  return last
end

-- unpark clears why a job was parked that leaves the buried state along an arrow. After a kick
-- its failures and deliveries begin at zero, and it does not expire if its time is over.
function SLOW.unpark(j, arrow)
  if arrow == 'kick-job buried' then SLOW.live_on(j) end
  local f = metadata_of(j)
  if not f or f.parked == NOT_PARKED then return end
  f.parked = NOT_PARKED
  if arrow == 'kick-job buried' then
    f.failures_before, f.deliveries_before = (j.releases + j.timeouts) % 4294967296, j.reserves
  end
  save_metadata(j)
end
