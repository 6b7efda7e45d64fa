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
    deliveries_before = 0, lease = 0, length = CHANGING, flags = 0, capacity = 0,
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

-- enlarge writes the metadata of a job anew, with a capacity for its reason. keep is how many
-- bytes of the record come before the reason.
local function enlarge(j, f, keep)
  local from = length_of(j.key) - f.length - 2
  local before = reason_size(f)
  f.capacity = math.ceil((2 + #f.reason) / REASON_STEP) * REASON_STEP
  if before == 0 then f.flags = f.flags + HAS_REASON end
  f.length = f.length + reason_size(f) - before
  local flags, rest = string.char(f.flags), pack_reason(f) .. pack_changing(f)
  if length_of(j.key) < LARGE then
    local raw = call('GET', j.key)
    call('SET', j.key, sub(raw, 1, from) .. flags .. sub(raw, from + 2, keep) .. rest)
  else
    call('SETRANGE', j.key, format('%d', from), flags)
    call('SETRANGE', j.key, format('%d', keep), rest)
  end
  lengths[j.key] = nil
end

-- set_reason records why a delivery of a job has failed.
function SLOW.set_reason(j, text)
  local f = change_metadata(j)
  local keep = length_of(j.key) - CHANGING - reason_size(f)
  f.reason, f.failed_ms = text, NOW
  if 2 + #text <= f.capacity then
    call('SETRANGE', j.key, format('%d', keep), pack_reason(f))
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
