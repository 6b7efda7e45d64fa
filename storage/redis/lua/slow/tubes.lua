-- Tubes. A tube exists while an instance uses or watches it, or it has jobs, that is, more were
-- put than deleted. The tube DEFAULT_TUBE always exists.

-- SLOW has functions for the other parts of the script, OPERATIONS the operations by the words that begin them.
local SLOW, OPERATIONS = {}, {}
SLOW.operations = OPERATIONS

local function say(text)
  answers[#answers + 1] = text
end

local function answer(n)
  say(format('%.0f;', n))
end

local function answer_text(text)
  say(#text .. ':' .. text)
end

-- answer_names answers with the number of names, and the names.
function SLOW.answer_names(names)
  answer(#names)
  for _, name in ipairs(names) do answer_text(name) end
end

-- note counts events in a tube for the instance, by a word that takes.go knows. note_run
-- records for how many ms a leased job has run.
function SLOW.note(what, tube, n)
  sum.noted = sum.noted or { runs = {} }
  local by_tube = sum.noted[what] or {}
  sum.noted[what], by_tube[tube] = by_tube, (by_tube[tube] or 0) + n
end

function SLOW.note_run(tube, ms)
  sum.noted = sum.noted or { runs = {} }
  local runs = sum.noted.runs
  runs[#runs + 1], runs[#runs + 2] = ms, tube
end

-- noted_text returns all of that as the end of the reply.
function SLOW.noted_text()
  local said = {}
  local function add(what, n, tube) said[#said + 1] = format('%d:%s%.0f;%d:%s', #what, what, n, #tube, tube) end
  local runs = sum.noted.runs
  sum.noted.runs = nil
  for k = 1, #runs, 2 do add('run', runs[k], runs[k + 1]) end
  for what, tubes in pairs(sum.noted) do
    for tube, n in pairs(tubes) do add(what, n, tube) end
  end
  return concat(said)
end

-- note_due records that the call has made something due.
local function note_due(at)
  if at < sum.earliest then sum.earliest = at end
end

-- count_up adds to a counter and returns its new value.
local function count_up(key, field, by)
  return call('HINCRBY', key, field, format('%.0f', by))
end

-- is_referenced returns whether any instance uses or watches a tube. Each tube is looked up
-- once in a call.
local referenced = {}
local function is_referenced(tube)
  if referenced[tube] == nil then
    referenced[tube] = call('EXISTS', PREFIX .. 'refs:' .. tube) == 1
  end
  return referenced[tube]
end

local function open_tube(tube)
  if not call('ZSCORE', PREFIX .. 'tubes', tube) then
    call('ZADD', PREFIX .. 'tubes', format('%.0f', count_up(COUNTS, 'opened', 1)), tube)
  end
end
SLOW.open_tube = open_tube

-- drop_unused deletes a tube that nothing needs. The last tube of the list takes its place
-- there. Its counters must have been written, see flush.
local function drop_unused(tube)
  if tube == DEFAULT_TUBE or is_referenced(tube) then return end
  local have = call('HMGET', PREFIX .. 'tube:' .. tube, 'total', 'deletes')
  if (have[1] or '0') ~= (have[2] or '0') then return end
  local place = call('ZSCORE', PREFIX .. 'tubes', tube)
  if not place then return end
  local last = call('ZREVRANGE', PREFIX .. 'tubes', '0', '0')[1]
  call('ZREM', PREFIX .. 'tubes', tube)
  if last ~= tube then call('ZADD', PREFIX .. 'tubes', place, last) end
  call('DEL', PREFIX .. 'tube:' .. tube, PREFIX .. 'waiting:' .. tube)
  call('HDEL', PREFIX .. 'paused', tube)
  call('ZREM', PREFIX .. 'timers', 'd:' .. tube, 'p:' .. tube)
  if limited then call('HDEL', PREFIX .. 'limited-waits', tube) end
  paused[tube] = false
end

-- flush writes the changes of the counters of tubes so far. A tube whose first jobs were put
-- may not exist yet, if no instance uses or watches it.
local function flush()
  for tube, by in pairs(totals) do
    if count_up(PREFIX .. 'tube:' .. tube, 'total', by) == by then open_tube(tube) end
    totals[tube] = nil
  end
  for field, changes in pairs({ deletes = deletes, bytes = bytes, joined = joined, ['joined-urgent'] = joined_urgent, ['joined-lone'] = sum.lone }) do
    for tube, by in pairs(changes) do
      count_up(PREFIX .. 'tube:' .. tube, field, by)
      changes[tube] = nil
    end
  end
end

-- put_in must be called when totals has grown, gone_from when deletes has. A tube that no
-- instance uses or watches begins to exist and ends at once, so that the order of tubes is
-- right.
function SLOW.put_in(tube)
  if not is_referenced(tube) then flush() end
end

function SLOW.gone_from(tube)
  if not is_referenced(tube) then
    flush()
    drop_unused(tube)
  end
end

-- write_slow_counters writes the counters over all tubes that only functions of slow/ change.
function SLOW.write_slow_counters()
  for _, name in ipairs({ 'delayed', 'buried', 'timeouts', 'checkpoints', 'checkpoint-bytes' }) do
    if sum[name] ~= 0 then count_up(COUNTS, name, sum[name]) end
  end
  local held = sum['held-keys']
  if held ~= 0 and count_up(COUNTS, 'held-keys', held) == held then SLOW.count_held_keys() end
  if sum.unput > 0 then SLOW.return_numbers() end
  if sum.job_batches then sum.job_batches.write() end
end
