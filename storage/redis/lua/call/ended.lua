-- Records of ended jobs, and who waits for the ends of jobs. ../../schema/ended.go describes their form.
--
-- What ends in a call is added to what E.write writes: at the end of the call, or before an operation that reads records. So the
-- records of many jobs are written together. With 64 jobs in a call a record takes 6.3, and dropping one 4.4.
--
-- seq, below, orders the records: µs since the epoch, but more than that of the one before, and with the number of the partition as
-- its remainder, so that no two of all partitions are equal. id is the decimal ID of a job.

local E = { HOW = ENDED_HOW }
local RECORD, OF, IN = PREFIX .. 'ended:', PREFIX .. 'ended-of:', PREFIX .. 'ended-in:'
local TUBES, UNTIL, BYTES, WAITS = PREFIX .. 'ended-tubes', PREFIX .. 'ended-until', PREFIX .. 'ended-bytes', PREFIX .. 'ended-waits'
local ID_FROM = #PREFIX + 1 -- of the ID in the key of a job

-- bound returns how many bytes all records here can have: 0 if none are kept.
local history
function E.bound()
  history = history or tonumber(call('HGET', COUNTS, 'history') or 0)
  return history
end

-- policy_of returns for how many ms records are kept by the policies of a tube, 0 if they are not, nil if those do not say; and how
-- many bytes the records of the tube can have.
local policies = {}
function E.policy_of(tube)
  local p = policies[tube]
  if not p and sum.keeping then
    local names = { tube }
    for n = #tube, 0, -1 do names[#names + 1] = sub(tube, 1, n) .. '*' end
    p = {}
    for _, text in ipairs(call('HMGET', PREFIX .. 'keep-policies', unpack(names))) do
      local keep, most = string.match(text or '', '^(%S+) (%S+)$')
      p.keep, p.most = p.keep or tonumber(keep), p.most or tonumber(most)
    end
    policies[tube] = p
  end
  return p and p.keep, p and p.most or DEFAULT_KEEP_BYTES
end

function E.forget_policies() policies = {} end

-- kept_in returns for how many ms records of jobs without own rules are kept in a tube, 0 if they are not.
function E.kept_in(tube)
  local keep = E.policy_of(tube) or 0
  return keep > 0 and E.bound() > 0 and keep or 0
end

-- What is to be written: words are those of MSET; of each tube and batch the entries of its sorted set, and of each tube its bytes; those of
-- ended-until; and the ids.
local words, tubes, batches, untils, ids = {}, {}, {}, {}, {}
local last_seq

local function next_seq()
  last_seq = last_seq or tonumber(call('HGET', COUNTS, 'ended') or 0)
  last_seq = math.max(last_seq + 1, math.floor(MS * 1000))
  last_seq = last_seq + (partition - last_seq) % partitions
  return last_seq
end

local function add_entry(sets, name, score, member)
  local set = sets[name]
  if not set then
    set = { bytes = 0 }
    sets[name] = set
  end
  set[#set + 1], set[#set + 2] = score, member
  return set
end

-- add adds the record of a job that is about to be deleted. e has its tube, key, how, a tube.How, keep, in ms, and head, its header with the name of
-- the tube; and if there is any, block, its metadata without the length, more, how many bytes of that count, batch, reserved, whether the
-- delivery in which it was is not in head, started, in ms, holder, to_tube, to_id and result.
function E.add(e)
  local seq, id, over = next_seq(), sub(e.key, ID_FROM), NOW + e.keep
  local batch, holder, to_tube, block, result = e.batch or '', e.holder or '', e.to_tube or '', e.block or '', e.result or ''
  local size = ENDED_OVERHEAD + #e.tube + (e.more or 0) + #holder + #to_tube + #result
  words[#words + 1] = RECORD .. id
  words[#words + 1] = struct.pack(ENDED_FORMAT .. 'Bc0Bc0Bc0', seq, over, NOW, e.started or 0, e.to_id or 0, size, e.how, e.reserved and 1 or 0,
    #batch, batch, #holder, holder, #to_tube, to_tube) .. e.head .. struct.pack('>I2', #block) .. block .. result
  local score = format('%.0f', seq)
  local set = add_entry(tubes, e.tube, score, id)
  set.bytes = set.bytes + size
  if batch ~= '' then add_entry(batches, batch, score, id) end
  untils[#untils + 1], untils[#untils + 2], ids[#ids + 1] = format('%.0f', over), id, id
  if over < sum.earliest then sum.earliest = over end
  sum.any_ended = true
  if #ids >= 400 then E.write() end
end

-- tell tells the instances that wait for jobs with these ids that these have ended, or are buried. Nobody waits for them any more then.
function E.tell(some)
  if call('EXISTS', WAITS) == 0 then return end
  local told, texts = {}, {}
  for k, names in ipairs(call('HMGET', WAITS, unpack(some))) do
    for name in string.gmatch(names or '', '%S+') do
      texts[name] = (texts[name] and texts[name] .. ',' or ENDED_MESSAGE) .. some[k]
    end
    if names then told[#told + 1] = some[k] end
  end
  if not told[1] then return end
  call('HDEL', WAITS, unpack(told))
  for name, text in pairs(texts) do
    if call('ZSCORE', PREFIX .. 'instances', name) then call('RPUSH', PREFIX .. 'wakeups:' .. name, text) end
  end
end

-- await notes that this instance waits for a job.
function E.await(id)
  local names = call('HGET', WAITS, id) or ''
  if not string.find(names, INSTANCE, 1, true) then call('HSET', WAITS, id, names .. INSTANCE .. ' ') end
end

function E.forget_wait(id) call('HDEL', WAITS, id) end

-- write_tube writes the entries of a tube, and drops its oldest records if they are too many.
local function write_tube(tube, set)
  local size = format('%.0f', set.bytes)
  add_all(OF .. tube, set)
  local have = call('HINCRBY', BYTES, tube, size)
  if have == set.bytes then call('ZADD', TUBES, set[1], tube) end
  call('HINCRBY', BYTES, '', size)
  local _, most = E.policy_of(tube)
  if have > most then E.drop_oldest(tube, math.min(have - most, 2 * set.bytes), ENDED_AT_ONCE) end
end

-- write writes all records that were added, and drops what is too much because of them: not more than twice as much, as a bound can have been
-- lowered. The rest is left to ticks.
function E.write()
  if not ids[1] then return end
  local written, names = tubes, ids
  call('MSET', unpack(words))
  add_all(UNTIL, untils)
  for batch, set in pairs(batches) do call('ZADD', IN .. batch, unpack(set)) end
  call('HSET', COUNTS, 'ended', format('%.0f', last_seq))
  words, tubes, batches, untils, ids, sum.changed = {}, {}, {}, {}, {}, true
  local added = 0
  for tube, set in pairs(written) do
    write_tube(tube, set)
    added = added + set.bytes
  end
  local excess = (call('HGET', BYTES, '') or 0) - E.bound()
  if excess > 0 then E.drop_oldest_of_all(math.min(excess, 2 * added), ENDED_AT_ONCE) end
  E.tell(names)
end

-- read_head returns what is needed of a record to drop it, with its id; nil if there is none.
local function read_head(id)
  local raw = call('GETRANGE', RECORD .. id, '0', ENDED_HEAD)
  if raw == '' then return nil end
  local _, over, _, _, _, size = struct.unpack(ENDED_FORMAT, raw)
  local batch, _, _, at = struct.unpack('Bc0Bc0Bc0', raw, ENDED_FIXED + 1)
  local name = at + NAME_AT - 1
  return { id = id, over = over, size = size, batch = batch, tube = sub(raw, name, name - 1 + string.byte(raw, name - 1)) }
end

-- note_oldest notes which is the oldest record of a tube.
local function note_oldest(tube)
  local first = call('ZRANGE', OF .. tube, '0', '0', 'WITHSCORES')
  if first[1] then
    call('ZADD', TUBES, first[2], tube)
  else
    call('ZREM', TUBES, tube)
    call('HDEL', BYTES, tube)
  end
end

-- drop removes records of a tube, as read_head has returned them, or entries without a record.
local function drop(tube, heads)
  local keys, some, size, of = {}, {}, 0, {}
  for k, head in ipairs(heads) do
    keys[k], some[k], size = RECORD .. head.id, head.id, size + head.size
    if head.batch ~= '' then
      of[head.batch] = of[head.batch] or {}
      table.insert(of[head.batch], head.id)
    end
  end
  call('DEL', unpack(keys))
  call('ZREM', UNTIL, unpack(some))
  call('ZREM', OF .. tube, unpack(some))
  for batch, members in pairs(of) do call('ZREM', IN .. batch, unpack(members)) end
  call('HINCRBY', BYTES, tube, format('%.0f', -size))
  if call('HINCRBY', BYTES, '', format('%.0f', -size)) == 0 then call('HDEL', BYTES, '') end
  note_oldest(tube)
  sum.changed = true
  return size
end

-- drop_first drops the first of these records of a tube: as many as have `excess` bytes. It returns how many bytes and records these are.
local function drop_first(tube, some, excess)
  local heads, size = {}, 0
  for k, id in ipairs(some) do
    heads[k] = read_head(id) or { id = id, size = 0, batch = '' }
    size = size + heads[k].size
    if size >= excess then break end
  end
  return heads[1] and drop(tube, heads) or 0, #heads
end

-- oldest returns the ids of the oldest records of a tube, those that have `excess` bytes are among them; up to n, and none with a larger seq.
local function oldest(tube, excess, n, upto)
  n = math.min(n, math.ceil(excess / ENDED_OVERHEAD), 250)
  return call('ZRANGEBYSCORE', OF .. tube, '-inf', upto, 'LIMIT', '0', format('%d', n))
end

-- drop_oldest drops the oldest records of a tube until they had `excess` bytes together, but up to n. It returns how many these are.
function E.drop_oldest(tube, excess, n)
  local dropped = 0
  while excess > 0 and dropped < n do
    local size, count = drop_first(tube, oldest(tube, excess, n - dropped, '+inf'), excess)
    if count == 0 then break end
    excess, dropped = excess - size, dropped + count
  end
  return dropped
end

-- drop_oldest_of_all does that with those of all tubes. A tube can be said to have an older record than it has.
function E.drop_oldest_of_all(excess, n)
  local dropped = 0
  while excess > 0 and dropped < n do
    local first = call('ZRANGE', TUBES, '0', '1', 'WITHSCORES')
    if not first[1] then break end
    local size, count = drop_first(first[1], oldest(first[1], excess, n - dropped, first[4] or '+inf'), excess)
    if count == 0 then note_oldest(first[1]) end
    excess, dropped = excess - size, dropped + math.max(count, 1)
  end
  return dropped
end

-- drop_over drops up to n records whose time is over. It returns how many these are.
local function drop_over(n)
  local some, of = call('ZRANGEBYSCORE', UNTIL, '-inf', format('%.0f', NOW), 'LIMIT', '0', format('%d', n)), {}
  for _, id in ipairs(some) do
    local head = read_head(id)
    if head then
      of[head.tube] = of[head.tube] or {}
      table.insert(of[head.tube], head)
    else
      call('ZREM', UNTIL, id)
    end
  end
  for tube, heads in pairs(of) do drop(tube, heads) end
  return #some
end

-- look_at_tubes drops up to n records of tubes that have too many, after a policy has changed. COUNTS has how far it got.
local function look_at_tubes(n)
  local cursor, dropped = call('HGET', COUNTS, 'ended-look'), 0
  if not cursor then return 0 end
  local found = call('HSCAN', BYTES, cursor, 'COUNT', '20')
  for k = 1, #found[2], 2 do
    local tube = found[2][k]
    local _, most = E.policy_of(tube)
    local excess = tube ~= '' and found[2][k + 1] - most or 0
    if excess > 0 then dropped = dropped + E.drop_oldest(tube, excess, n - dropped) end
  end
  if dropped >= n then return n end
  if found[1] == '0' then call('HDEL', COUNTS, 'ended-look') else call('HSET', COUNTS, 'ended-look', found[1]) end
  sum.changed = true
  return dropped + 1
end

-- tick drops about limit records whose time is over, or that are beyond a bound which was lowered. It returns when there is more to do, in ms;
-- nil if there are no records.
function E.tick(limit)
  local n = drop_over(limit)
  local excess = (call('HGET', BYTES, '') or 0) - E.bound()
  if excess > 0 then n = n + E.drop_oldest_of_all(excess, math.max(limit - n, 1)) end
  local looked = look_at_tubes(math.max(limit - n, 1))
  if excess > 0 or looked > 0 then return NOW end
  return tonumber(call('ZRANGE', UNTIL, '0', '0', 'WITHSCORES')[2])
end

-- read returns the record of a job, unless its time is over; nil if there is none. It also returns how many bytes it counts.
function E.read(id)
  local raw = call('GET', RECORD .. id)
  if not raw then return nil end
  local _, over, _, _, _, size = struct.unpack(ENDED_FORMAT, raw)
  if over <= NOW then return nil end
  return raw, size
end

-- about_next returns what delete-held says of the next of its jobs, at an index of that text: when it was delivered, in ms, and the name of
-- the holder; and the index behind that.
local function about_next(about, at)
  local since, length, from = string.match(about, '^(%d+);(%d+):()', at)
  if not since then return nil, nil, at end
  return tonumber(since), sub(about, from, from - 1 + length), from + length
end

-- add_held adds records of jobs of a tube that connections of this instance hold, which are about to be deleted: those of the keys in ARGV[from …
-- upto] that exist. Their metadata, if they have any, says only their groups, whose lengths are given then.
function E.add_held(tube, from, upto, about, lengths)
  local keep = E.kept_in(tube)
  if keep == 0 then return end
  local e, at = { tube = tube, how = ENDED_HOW.done, keep = keep, reserved = true }, 1
  for k = from, upto do
    e.key, e.started, e.holder, at = ARGV[k], about_next(about, at)
    e.head = call('GETRANGE', e.key, '0', format('%d', NAME_AT - 2 + #tube))
    if lengths and e.head ~= '' then
      e.more = lengths[k - from + 1]
      e.block = sub(call('GETRANGE', e.key, format('%d', -GROUP_BLOCK - e.more), '-1'), 1, -3)
    end
    if e.head ~= '' then E.add(e) end
  end
end
