-- Leases of many jobs at once, and their ends: see tagged/leases.lua.
--
-- Fast path: the metadata of a job is changed in the record that is read anyway. A take must change
-- nothing else, and a delete is only for jobs that have neither a key nor a group nor a batch nor reports, and do not expire.

-- metadata_functions returns those that jobs need which have more metadata than their lease.
local METADATA
local function metadata_functions()
--include data: metadata
  return { unpack = unpack_metadata, pack_changing = pack_changing, CHANGING = CHANGING }
end

-- with_token returns a record with the token of a new lease, and the answer that is the token.
local NEW_TOKEN = math.floor(MS * 1000)
local NEW_TEXT, NEW_BLOCK = format('%.0f;', NEW_TOKEN), only_lease(NEW_TOKEN)
function with_token(record)
  local letter = sub(record, 1, 1)
  if letter >= 'a' then
    METADATA = METADATA or metadata_functions()
    local f = METADATA.unpack(record)
    if f then
      f.lease = math.max(NEW_TOKEN, f.lease + 1)
      return sub(record, 1, -1 - METADATA.CHANGING) .. METADATA.pack_changing(f), format('%.0f;', f.lease)
    end
  end
  return string.lower(letter) .. sub(record, 2) .. NEW_BLOCK, NEW_TEXT
end

-- lease_large gives those of the jobs with these keys new tokens whose records are large.
function lease_large(keys)
  large_tokens = {}
  if largest < LARGE then return end
  SLOW = SLOW or slow_functions()
  for _, key in ipairs(keys) do
    local token = SLOW.lease_large(key)
    large_tokens[key] = token and format('%.0f;', token)
  end
end

-- is_plain returns whether the last lease of a job had this token, and nothing but its record and its
-- place says that the job is there; how long its metadata block is; and whether it says only the lease.
local blocks = {} -- what only_lease has returned, by the texts of tokens
local function is_plain(record, token)
  if #record > LARGE or sub(record, 1, 1) < 'a' then return false end
  local block = blocks[token] or only_lease(tonumber(token))
  blocks[token] = block
  if sub(record, -#block) == block then return true, #block, true end
  METADATA = METADATA or metadata_functions()
  local f = METADATA.unpack(record)
  if not f or f.key ~= '' or f.group or f.batch or f.expires or f.still or f.reports or format('%.0f', f.lease) ~= token then return false end
  return true, f.length + 2
end

-- kept_in returns for how many ms records of jobs are kept in a tube.
local function kept_in(tube)
  if not sum.keeping then return 0 end
  return sum.ended().kept_in(tube)
end

-- delete_plain deletes a leased job, but for its record. It returns the name of its tube; nil if it has
-- deleted nothing.
local UPTO = format('%d', LARGE)
local function delete_plain(key, token, holder)
  local record = call('GETRANGE', key, '0', UPTO)
  local plain, length, only = is_plain(record, token)
  if not plain then return nil end
  local name_end = NAME_AT - 1 + string.byte(record, NAME_AT - 1)
  local tube = sub(record, NAME_AT, name_end)
  local keep = kept_in(tube)
  if keep > 0 and not only or call('ZREM', LEASES, key) == 0 then return nil end
  if keep > 0 then
    sum.ended().add({ tube = tube, key = key, how = sum.ended().HOW.done, keep = keep, head = record, block = sub(record, -length, -3),
      reserved = true, started = math.floor(token / 1000), holder = holder })
  end
  bytes[tube], deletes[tube] = (bytes[tube] or 0) - #record + name_end + length, (deletes[tube] or 0) + 1
  answers[#answers + 1] = format('2;%.0f;%d:%s', math.max(MS - token / 1000, 0), #tube, tube)
  return tube
end

-- delete_leased carries out delete-leased for the tokens and ids in ARGV[from … upto].
function delete_leased(about, from, upto)
  local gone, tubes, at = {}, {}, 1
  for k = from, upto, 2 do
    local length, name, holder = string.match(about, '^(%d+):()', at)
    if length then holder, at = sub(about, name, name - 1 + length), name + length end
    local tube = not limited and delete_plain(ARGV[k + 1], ARGV[k], holder)
    if tube then
      gone[#gone + 1], tubes[tube] = ARGV[k + 1], true
    else
      SLOW = SLOW or slow_functions()
      sum.holder = holder
      SLOW.move_leased('delete', ARGV[k], ARGV[k + 1])
      sum.holder = nil
    end
  end
  if not gone[1] then return end
  call('DEL', unpack(gone))
  sum.changed, sum.deleted = true, sum.deleted + #gone
  for tube in pairs(tubes) do
    if call('EXISTS', PREFIX .. 'refs:' .. tube) == 0 then
      SLOW = SLOW or slow_functions()
      SLOW.gone_from(tube)
    end
  end
end
