-- Records of ended jobs, and who waits for the ends of jobs. ../../schema/ended.go describes their form.
--
-- The problem: a job that leaves a record should cost little more than one that does not, and the index of a record costs more than the record: a key
-- of its own, and three members of sorted sets. So the records of the jobs of one tube that end in a call are written together, in a chunk: when the
-- call ends, or before an operation that reads records (E.write). They are dropped together, too: a delete takes 5.4 with a record, instead of 12.6 if each has a key and members of its own, and 2.2 without.
--
-- The invariants: all records of a chunk have the same tube, batch and time at which they go. The name of a chunk is the seq of its first record, which
-- orders records: µs since the epoch, but more than that of the one before, and with the number of the partition as its remainder, so that no two of
-- all partitions are equal. The seq of the next records follow, in steps of `partitions`.

local E = { HOW = ENDED_HOW }
local CHUNK, OF, IN, IDS = PREFIX .. 'ended:', PREFIX .. 'ended-of:', PREFIX .. 'ended-in:', PREFIX .. 'ended-ids'
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

-- What is to be written: chunks, in their order. Of each: tube, keep, in ms, batch, most, n and bytes, how many records it can have, has, and counts;
-- texts, those of its records; and runs, the ranges of ids, alternately the first one and how many there are. open has the last one of each tube.
local chunks, open = {}, {}

-- chunk_for returns the chunk to which a record of a tube is added. They are small where a bound is.
local function chunk_for(tube, keep, batch)
  local c = open[tube]
  if c and c.keep == keep and c.batch == batch and c.n < ENDED_TOGETHER and c.bytes < c.most then return c end
  local _, most = E.policy_of(tube)
  c = { tube = tube, keep = keep, batch = batch, n = 0, bytes = 0, texts = {}, runs = {}, most = math.min(most, E.bound()) / 32 }
  c.most = math.min(c.most, ENDED_CHUNK)
  chunks[#chunks + 1], open[tube] = c, c
  return c
end

-- append adds a record that counts some bytes to what is written.
local function append(c, id, text, size)
  local runs = c.runs
  if id == c.following then
    runs[#runs] = runs[#runs] + 1
  else
    runs[#runs + 1], runs[#runs + 2] = id, 1
  end
  c.n, c.bytes, c.following = c.n + 1, c.bytes + size, id + partitions
  c.texts[c.n] = text
end

-- add adds the record of a job that is about to be deleted. e has its tube, key, how, a tube.How, keep, in ms, and head, its header; and if there
-- is any, block, its metadata without the length, more, how many bytes of that count, batch, reserved, whether the delivery in which it was is not in
-- head, started, in ms, holder, to_tube, to_id and result.
function E.add(e)
  local holder, to_tube, block, result = e.holder or '', e.to_tube or '', e.block or '', e.result or ''
  local id, size = tonumber(sub(e.key, ID_FROM)), ENDED_OVERHEAD + #e.tube + (e.more or 0) + #holder + #to_tube + #result
  local text = struct.pack(ENDED_RECORD, id, e.started or 0, e.to_id or 0, e.how, e.reserved and 1 or 0, #holder, holder, #to_tube, to_tube)
    .. sub(e.head, 1, NAME_AT - 1) .. struct.pack('>I2', #block) .. block .. result
  append(chunk_for(e.tube, e.keep, e.batch or ''), id, struct.pack('>I4', #text) .. text, size)
  sum.any_ended = true
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

-- tell_all lets all instances ask again for all jobs whose ends they await.
function E.tell_all()
  if call('EXISTS', WAITS) == 0 then return end
  for _, name in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do call('RPUSH', PREFIX .. 'wakeups:' .. name, ENDED_MESSAGE .. '*') end
end

-- await notes that this instance waits for a job.
function E.await(id)
  local names = call('HGET', WAITS, id) or ''
  if not string.find(names, INSTANCE, 1, true) then call('HSET', WAITS, id, names .. INSTANCE .. ' ') end
end

function E.forget_wait(id) call('HDEL', WAITS, id) end

-- next_seq returns the seq of the first of n records.
local last_seq
local function next_seq(n)
  last_seq = last_seq or tonumber(call('HGET', COUNTS, 'ended') or 0)
  local seq = math.max(last_seq + 1, math.floor(MS * 1000))
  seq = seq + (partition - seq) % partitions
  last_seq = seq + (n - 1) * partitions
  return seq
end

-- write_chunk writes a chunk. It returns the ids in it.
local function write_chunk(c, ids)
  local seq, over = next_seq(c.n), NOW + c.keep
  local name = format('%.0f', seq)
  call('SET', CHUNK .. name, struct.pack(ENDED_FORMAT, seq, NOW, c.keep, c.bytes, c.n, #c.tube, c.tube, #c.batch, c.batch) .. concat(c.texts))
  call('ZADD', OF .. c.tube, name, name)
  if c.batch ~= '' then call('ZADD', IN .. c.batch, name, name) end
  call('ZADD', UNTIL, format('%.0f', over), name)
  local members = {}
  for k = 1, #c.runs, 2 do
    members[k], members[k + 1] = '0', format(ID_FORMAT .. ';%d;', c.runs[k], c.runs[k + 1]) .. name
    for n = 0, c.runs[k + 1] - 1 do ids[#ids + 1] = format(ID_FORMAT, c.runs[k] + n * partitions) end
  end
  add_all(IDS, members)
  if over < sum.earliest then sum.earliest = over end
  return name
end

-- write writes all records that were added, and drops what is too much because of them: not more than twice as much, as a bound can have been
-- lowered. The rest is left to ticks.
function E.write()
  if not chunks[1] then return end
  local written, added, records, by_tube, ids = chunks, 0, 0, {}, {}
  chunks, open, sum.changed = {}, {}, true
  for _, c in ipairs(written) do
    local name = write_chunk(c, ids)
    added, records, by_tube[c.tube] = added + c.bytes, records + c.n, (by_tube[c.tube] or 0) + c.bytes
    if call('HINCRBY', BYTES, c.tube, format('%.0f', c.bytes)) == c.bytes then call('ZADD', TUBES, name, c.tube) end
  end
  call('HSET', COUNTS, 'ended', format('%.0f', last_seq))
  call('HINCRBY', COUNTS, 'ended-records', format('%d', records))
  local all = call('HINCRBY', BYTES, '', format('%.0f', added))
  for tube, size in pairs(by_tube) do
    local _, most = E.policy_of(tube)
    local excess = call('HGET', BYTES, tube) - most
    if excess > 0 then all = all - E.drop_oldest(tube, math.min(excess, 2 * size), ENDED_AT_ONCE) end
  end
  if all > E.bound() then E.drop_oldest_of_all(math.min(all - E.bound(), 2 * added), ENDED_AT_ONCE) end
  E.tell(ids)
end

-- read_head returns what is said of a chunk before its records; nil if there is none.
local function read_head(name)
  local raw = call('GETRANGE', CHUNK .. name, '0', ENDED_HEAD)
  if raw == '' then return nil end
  local c = { name = name, raw = raw }
  c.seq, c.at, c.keep, c.bytes, c.n, c.tube, c.batch, c.from = struct.unpack(ENDED_FORMAT, raw)
  return c
end

-- each_record calls act with the id, the beginning and the end of each record in the text of a chunk, from an index on, and how many precede it, until
-- act returns something. It returns that.
local function each_record(raw, from, act)
  local k = 0
  while from <= #raw do
    local length, id = struct.unpack('>I4I8', raw, from)
    local found = act(id, from + 4, from + 3 + length, k)
    if found then return found end
    from, k = from + 4 + length, k + 1
  end
end

-- ids_in returns what ended-ids has of a chunk.
local function ids_in(c)
  local raw, members, runs = c.raw, {}, {}
  if c.n > 1 then
    raw = call('GET', CHUNK .. c.name)
  else
    runs = { struct.unpack('>I8', raw, c.from + 4), 1 }
    runs[3] = nil
    return { format(ID_FORMAT .. ';1;', runs[1]) .. c.name }
  end
  each_record(raw, c.from, function(id)
    local last = #runs
    if runs[last] and id == runs[last - 1] + runs[last] * partitions then
      runs[last] = runs[last] + 1
    else
      runs[last + 1], runs[last + 2] = id, 1
    end
  end)
  for k = 1, #runs, 2 do members[#members + 1] = format(ID_FORMAT .. ';%d;', runs[k], runs[k + 1]) .. c.name end
  return members
end

-- note_oldest notes which is the oldest chunk of a tube.
local function note_oldest(tube)
  local first = call('ZRANGE', OF .. tube, '0', '0')[1]
  if first then
    call('ZADD', TUBES, first, tube)
  else
    call('ZREM', TUBES, tube)
    call('HDEL', BYTES, tube)
  end
end

-- drop removes a chunk, by its name, of a tube if that is known. It returns how many bytes and records it had.
local function drop(name, tube)
  local c = read_head(name)
  call('ZREM', UNTIL, name)
  sum.changed = true
  if not c then
    if tube then call('ZREM', OF .. tube, name) end
    return 0, 0
  end
  call('ZREM', IDS, unpack(ids_in(c)))
  call('DEL', CHUNK .. name)
  call('ZREM', OF .. c.tube, name)
  if c.batch ~= '' then call('ZREM', IN .. c.batch, name) end
  call('HINCRBY', COUNTS, 'ended-records', format('%d', -c.n))
  call('HINCRBY', BYTES, c.tube, format('%.0f', -c.bytes))
  if call('HINCRBY', BYTES, '', format('%.0f', -c.bytes)) == 0 then call('HDEL', BYTES, '') end
  note_oldest(c.tube)
  return c.bytes, c.n
end

-- drop_oldest drops the oldest chunks of a tube until those had `excess` bytes together, or n records. It returns how many bytes and records.
function E.drop_oldest(tube, excess, n)
  local size, records = 0, 0
  while size < excess and records < n do
    local name = call('ZRANGE', OF .. tube, '0', '0')[1]
    if not name then break end
    local some, count = drop(name, tube)
    size, records = size + some, records + math.max(count, 1)
  end
  return size, records
end

-- drop_oldest_of_all does that with those of all tubes. A tube can be said to have an older one than it has.
function E.drop_oldest_of_all(excess, n)
  local size, records = 0, 0
  while size < excess and records < n do
    local first = call('ZRANGE', TUBES, '0', '0', 'WITHSCORES')
    if not first[1] then break end
    local name, some, count = call('ZRANGE', OF .. first[1], '0', '0')[1], 0, 0
    if name == first[2] then some, count = drop(name, first[1]) else note_oldest(first[1]) end
    size, records = size + some, records + math.max(count, 1)
  end
  return size, records
end

-- drop_over drops up to about n records whose time is over. It returns how many these are.
local function drop_over(n)
  local dropped = 0
  while dropped < n do
    local name = call('ZRANGEBYSCORE', UNTIL, '-inf', format('%.0f', NOW), 'LIMIT', '0', '1')[1]
    if not name then break end
    local _, count = drop(name)
    dropped = dropped + math.max(count, 1)
  end
  return dropped
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
    if excess > 0 then dropped = dropped + select(2, E.drop_oldest(tube, excess, n - dropped)) end
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
  if excess > 0 then n = n + select(2, E.drop_oldest_of_all(excess, math.max(limit - n, 1))) end
  local looked = look_at_tubes(math.max(limit - n, 1))
  if excess > 0 or looked > 0 then return NOW end
  return tonumber(call('ZRANGE', UNTIL, '0', '0', 'WITHSCORES')[2])
end

-- read returns the record of a job, unless its time is over: the text before the records of its chunk, how many records precede it there, and the
-- record. It returns nil if there is none.
function E.read(id)
  local last = call('ZREVRANGEBYLEX', IDS, '[' .. id .. '~', '-', 'LIMIT', '0', '1')[1]
  local first, n, name = string.match(last or '', '^(%d+);(%d+);(%d+)$')
  local before = first and (id - first) / partitions
  if not before or before >= tonumber(n) then return nil end
  local c, raw = read_head(name), call('GET', CHUNK .. name)
  if not raw or c.at + c.keep <= NOW then return nil end
  local found = each_record(raw, c.from, function(of, from, upto, k) return of == tonumber(id) and { k, sub(raw, from, upto) } end)
  if found then return sub(raw, 1, c.from - 1), found[1], found[2] end
end

-- list returns chunks of a sorted set, the newest first, that have records with a seq less than `before`, nil for all: about as many as have n records
-- or `most` bytes. It also returns whether there are more.
function E.list(set, before, n, most)
  local found, from = {}, before and call('ZCOUNT', set, format('%.0f', before), '+inf') or 0
  while true do
    local names = call('ZREVRANGE', set, format('%d', from), format('%d', from + 49))
    for _, name in ipairs(names) do
      if n <= 0 or most <= 0 then return found, true end
      local c = read_head(name)
      if c and c.at + c.keep > NOW then
        local behind = before and math.ceil((before - c.seq) / partitions) or c.n
        found[#found + 1], n = call('GET', CHUNK .. name), n - math.min(behind, c.n)
        if behind >= c.n then most = most - c.bytes end
      end
    end
    if #names < 50 then return found, false end
    from = from + 50
  end
end

-- about_next returns what delete-held says of some of its jobs, from an index of that text on: how many these are, when they were delivered, in ms, and
-- the name of the holder; and the index behind that. If it says nothing they are all.
local NOBODY, NO_BLOCK = '\0\0', '\0\0'
local function about_next(about, at)
  local n, since, length, from = string.match(about, '^(%d+);(%d+);(%d+):()', at)
  if not n then return -1, 0, '', at end
  return tonumber(n), tonumber(since), sub(about, from, from - 1 + length), from + length
end

-- heads_of returns the headers of the jobs with the keys in ARGV[from … upto], false or '' for each that is not there.
local function heads_of(from, upto)
  local most = tonumber(call('HGET', COUNTS, 'largest') or math.huge)
  if most <= ENDED_READ_WHOLE then return call('MGET', unpack(ARGV, from, upto)) end
  local heads = {}
  for k = from, upto do heads[#heads + 1] = call('GETRANGE', ARGV[k], '0', format('%d', NAME_AT - 2)) end
  return heads
end

-- add_held adds records of jobs of a tube that connections of this instance hold, which are about to be deleted: those of the keys in ARGV[from …
-- upto] that exist. Their metadata, if they have any, says only their groups, whose lengths are given then.
function E.add_held(tube, from, upto, about, lengths)
  local keep = E.kept_in(tube)
  if keep == 0 then return end
  local heads, at, started, holder, left = heads_of(from, upto), 1, 0, '', 0
  sum.any_ended = true
  for k = from, upto do
    if left == 0 then left, started, holder, at = about_next(about, at) end
    left = left - 1
    local head, key, more, block = heads[k - from + 1], ARGV[k], 0, NO_BLOCK
    if head and head ~= '' then
      if lengths then
        more = lengths[k - from + 1]
        block = call('GETRANGE', key, format('%d', -GROUP_BLOCK - more), '-1')
        block = struct.pack('>I2', #block - 2) .. sub(block, 1, -3)
      end
      local id = tonumber(sub(key, ID_FROM))
      local rest = #holder == 0 and NOBODY or struct.pack('Bc0B', #holder, holder, 0)
      append(chunk_for(tube, keep, ''), id, struct.pack(ENDED_HELD, ENDED_HELD_LENGTH + #rest + #block, id, started, 0, ENDED_HOW.done, 1) .. rest
        .. sub(head, 1, NAME_AT - 1) .. block, ENDED_OVERHEAD + #tube + #holder + more)
    end
  end
end
