-- Metadata blocks. j.metadata is that of a job, as unpack_metadata returns it, once metadata_of
-- or change_metadata has been called.

-- metadata_of returns the metadata of a job, nil if it has none. With a broken block, which
-- fsck reports, the job counts as one without metadata.
local function metadata_of(j)
  if j.has_metadata and not j.metadata then
    j.metadata = read_metadata(j.key)
    j.has_metadata = j.metadata ~= nil
  end
  return j.metadata
end
SLOW.metadata_of = metadata_of

-- has_reports returns whether a job has a checkpoint or a progress, see reports.lua.
local function has_reports(j)
  local f = metadata_of(j)
  return f ~= nil and f.reports or false
end
SLOW.has_reports = has_reports

-- read_group returns the group of a job, false if it has none.
function SLOW.read_group(j)
  local f = metadata_of(j)
  return f and f.group or false
end

-- metadata_size returns the size of the block of a job in bytes.
function SLOW.metadata_size(j)
  local f = metadata_of(j)
  return f and f.length + 2 or 0
end

-- change_metadata returns the metadata of a job, to be changed and then written by
-- save_metadata. A job without metadata gets a block.
local function change_metadata(j)
  if metadata_of(j) then return j.metadata end
  local f = { key = '', from_tube = '', from_id = 0, parked = NOT_PARKED, failures_before = 0,
    deliveries_before = 0, lease = 0, length = CHANGING, flags = 0, capacity = 0, past = '',
    more_at = 2, more_end = 2 }
  local block = '\0\0' .. pack_changing(f)
  if length_of(j.key) < LARGE then
    call('SET', j.key, call('GET', j.key) .. block)
  else
    call('APPEND', j.key, block)
  end
  j.metadata, j.has_metadata, lengths[j.key] = f, true, nil
  return f
end

-- save_metadata writes the changes of the metadata of a job. Its letter is written by save.
local function save_metadata(j)
  call('SETRANGE', j.key, format('%d', length_of(j.key) - CHANGING), pack_changing(j.metadata))
end

SLOW.change_metadata, SLOW.save_metadata = change_metadata, save_metadata

-- reason_capacity returns the capacity that the reason and the past of f get.
local function reason_capacity(f) return math.ceil(REASON.needs(f) / REASON.STEP) * REASON.STEP end

-- enlarge writes the metadata of a job anew, with a capacity for its reason. keep is how many
-- bytes of the record come before the reason.
local function enlarge(j, f, keep)
  local from = length_of(j.key) - f.length - 2
  local before = REASON.size(f)
  f.capacity = reason_capacity(f)
  if before == 0 then f.flags = f.flags + HAS_REASON end
  f.length = f.length + REASON.size(f) - before
  local flags, rest = string.char(f.flags), REASON.pack(f) .. pack_changing(f)
  if length_of(j.key) < LARGE then
    local raw = call('GET', j.key)
    call('SET', j.key, sub(raw, 1, from) .. flags .. sub(raw, from + 2, keep) .. rest)
  else
    call('SETRANGE', j.key, format('%d', from), flags)
    call('SETRANGE', j.key, format('%d', keep), rest)
  end
  lengths[j.key] = nil
  local largest = call('HGET', COUNTS, 'largest')
  if largest and tonumber(largest) < keep + #rest then call('HSET', COUNTS, 'largest', format('%d', keep + #rest)) end
end

-- NO_PAST is the past of a job without attempts that is made of no other one.
local NO_PAST = struct.pack('>I8', 0)

-- attempt_reason returns what an attempt has of a reason: whole characters.
local function attempt_reason(text)
  if #text <= REASON.MAX_ATTEMPT then return text end
  local last = REASON.MAX_ATTEMPT
  while last > 0 and string.byte(text, last + 1) >= 128 and string.byte(text, last + 1) < 192 do last = last - 1 end
  return sub(text, 1, last)
end

-- past_of_dead returns what a dead letter has of the reason and the past of a job with metadata f, which it
-- is made of: a table for REASON.pack.
function SLOW.past_of_dead(f, created)
  local past = f.past == '' and NO_PAST or f.past
  if sub(past, 1, 8) == NO_PAST then past = struct.pack('>I8', created) .. sub(past, 9) end
  local of = { reason = f.reason or '', failed_ms = f.failed_ms or 0, past = past }
  of.capacity = reason_capacity(of)
  return of
end

-- with_attempt returns the past of a job with one more attempt, and without the oldest of REASON.MAX_ATTEMPTS.
local function with_attempt(past, how, holder, reason)
  if past == '' then past = NO_PAST end
  local at, n = 9, 1
  while at <= #past and n < REASON.MAX_ATTEMPTS do
    at, n = select(5, struct.unpack('>BI8Bc0Bc0', past, at)), n + 1
  end
  return sub(past, 1, 8) .. struct.pack('>BI8Bc0Bc0', how, NOW, #holder, holder, #reason, reason) .. sub(past, 9, at - 1)
end

-- note_failure records that a delivery of a job fails along an arrow, and why as far as that is said; and why it moves along another arrow, if
-- that is said.
function SLOW.note_failure(j, arrow)
  local how, reason, holder = REASON.FAILED[arrow], sum.reason or '', sum.reason and sum.failed_holder or ''
  if reason == '' and (not how or arrow == 'bury reserved' or not SLOW.notes_failures(j)) then return end
  if arrow == 'expire reserved' and reason == '' then reason = REASON.TTR end
  local f = change_metadata(j)
  local keep = length_of(j.key) - CHANGING - REASON.size(f)
  if reason ~= '' then f.reason, f.failed_ms = reason, NOW end
  if how then f.past = with_attempt(f.past, how, holder, attempt_reason(reason)) end
  f.reason, f.failed_ms = f.reason or '', f.failed_ms or 0
  if REASON.needs(f) <= f.capacity then
    call('SETRANGE', j.key, format('%d', keep), REASON.pack(f))
  else
    enlarge(j, f, keep)
  end
end

-- discount makes a delivery of a job that ends as no failure count neither as a failure nor as a
-- delivery.
function SLOW.discount(j)
  local f = change_metadata(j)
  f.failures_before, f.deliveries_before = (f.failures_before + 1) % 4294967296, (f.deliveries_before + 1) % 4294967296
  save_metadata(j)
end

-- locate_tagged is the part of locate about leases and pending dead letters.
function SLOW.locate_tagged(j)
  if j.state == 'reserved' then
    j.leased = call('ZSCORE', LEASES, j.key) ~= false
  elseif j.state == 'buried' and call('HEXISTS', PREFIX .. 'pending', sub(j.key, #PREFIX + 1)) == 1 then
    j.state = 'pending'
  end
end
