-- Records of ended jobs, and who waits for the ends of jobs. ../../schema/ended.go describes their form.
--
-- The problem: a job that leaves a record should cost little more than one that does not, and the index of a record costs more than the record: a key
-- of its own, and three members of sorted sets. So the records of the jobs of one tube that end in a call are written together, in a chunk: when the
-- call ends, or before an operation that reads records (E.write). They are dropped together, too: a delete takes 5.4 with a record, instead of 12.6 if each has a key and members of its own, and 2.2 without.
-- A few records, as of a job that ends alone, are appended to the last chunk of the tube if that was begun only a little while ago.
--
-- The invariants: all records of a chunk have the same tube and batch, and are kept equally long. The name of a chunk is the seq of its first record, which
-- orders records: µs since the epoch, but more than that of the one before, and with the number of the partition as its remainder, so that no two of
-- all partitions are equal. The seq of the next records of a call follow, in steps of `partitions`. No two chunks of a tube, nor of a batch, overlap
-- in that order.

local E = { HOW = ENDED_HOW }
local CHUNK, OF, IN, IDS = PREFIX .. 'ended:', PREFIX .. 'ended-of:', PREFIX .. 'ended-in:', PREFIX .. 'ended-ids'
local TUBES, UNTIL, BYTES, WAITS = PREFIX .. 'ended-tubes', PREFIX .. 'ended-until', PREFIX .. 'ended-bytes', PREFIX .. 'ended-waits'
local ID_FROM = #PREFIX + 1 -- of the ID in the key of a job

-- What COUNTS says, read once in a call: how many bytes all records here can have, 0 if none are kept; the size of the largest record of a job; the seq of
-- the last record, and how many there are.
local history, largest, last_seq, total
local function read_counts()
  if history then return end
  local have = call('HMGET', COUNTS, 'history', 'largest', 'ended', 'ended-records')
  history, largest, last_seq, total = tonumber(have[1] or 0), tonumber(have[2] or math.huge), tonumber(have[3] or 0), tonumber(have[4] or 0)
end

-- bound returns how many bytes all records here can have: 0 if none are kept.
function E.bound()
  read_counts()
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
-- texts and ids, of its records; and mixed, whether the ids do not ascend. open has the last one of each tube.
local chunks, open = {}, {}

-- chunk_for returns the chunk to which a record of a tube is added. They are small where a bound is.
local function chunk_for(tube, keep, batch)
  local c = open[tube]
  if c and c.keep == keep and c.batch == batch and c.n < ENDED_TOGETHER and c.bytes < c.most then return c end
  local _, most = E.policy_of(tube)
  c = { tube = tube, keep = keep, batch = batch, n = 0, bytes = 0, texts = {}, ids = {}, most = math.min(most, E.bound()) / 32 }
  c.most = math.min(c.most, ENDED_CHUNK)
  chunks[#chunks + 1], open[tube] = c, c
  return c
end

-- append adds a record that counts some bytes to what is written.
local function append(c, id, text, size)
  local n = c.n
  if n > 0 and id < c.ids[n] then c.mixed = true end
  n = n + 1
  c.n, c.bytes, c.ids[n], c.texts[n] = n, c.bytes + size, id, text
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

-- tell_all lets all instances ask again for all jobs whose ends they await, after it has changed which jobs leave records: so nothing is left of waits
-- that were given up.
function E.tell_all()
  if call('DEL', WAITS) == 0 then return end
  for _, name in ipairs(call('ZRANGE', PREFIX .. 'instances', '0', '-1')) do call('RPUSH', PREFIX .. 'wakeups:' .. name, ENDED_MESSAGE .. '*') end
end

-- await notes that this instance waits for a job.
function E.await(id)
  local names = call('HGET', WAITS, id) or ''
  if not string.find(names, INSTANCE, 1, true) then call('HSET', WAITS, id, names .. INSTANCE .. ' ') end
end

function E.forget_wait(id) call('HDEL', WAITS, id) end

-- next_seq returns the seq of the first of n records.
local function next_seq(n)
  read_counts()
  local seq = math.max(last_seq + 1, math.floor(MS * 1000))
  seq = seq + (partition - seq) % partitions
  last_seq = seq + (n - 1) * partitions
  return seq
end

-- read_head returns what is said of a chunk before its records; nil if there is none.
local function read_head(name)
  local raw = call('GETRANGE', CHUNK .. name, '0', ENDED_HEAD)
  if raw == '' then return nil end
  local c = { name = name, raw = raw }
  c.seq, c.at, c.keep, c.bytes, c.n, c.tube, c.batch, c.from = struct.unpack(ENDED_FORMAT, raw)
  return c
end

-- members_upto returns the last n members of ended-ids whose first id is not larger than one; parse_member the first id of one, how many ids it has, and
-- the name of their chunk.
local function parse_member(member)
  local first, n, name = string.match(member or '', '^(%d+);(%d+);(%d+)$')
  return tonumber(first), tonumber(n), name
end
local function members_upto(id, n) return call('ZREVRANGEBYLEX', IDS, '[' .. id .. '~', '-', 'LIMIT', '0', n) end

-- runs_of returns the runs of consecutive ids, each { first, n }. mixed says that the ids do not ascend: they do then.
local function runs_of(ids, mixed)
  if mixed then table.sort(ids) end
  local runs, last = {}, nil
  for _, id in ipairs(ids) do
    if last and id == last[1] + last[2] * partitions then
      last[2] = last[2] + 1
    else
      last = { id, 1 }
      runs[#runs + 1] = last
    end
  end
  return runs
end

local function member_of(name, run) return format(ID_FORMAT .. ';%d;', run[1], run[2]) .. name end

-- open_for returns for how long records that are kept for some time are appended to a chunk, in ms.
local function open_for(keep) return math.floor(math.min(keep / 10, ENDED_OPEN)) end

-- begin_chunk writes a chunk with that seq.
local function begin_chunk(c, seq)
  local name, over, entries = format('%.0f', seq), NOW + c.keep + open_for(c.keep), {}
  call('SET', CHUNK .. name, struct.pack(ENDED_FORMAT, seq, NOW, c.keep, c.bytes, c.n, #c.tube, c.tube, #c.batch, c.batch) .. concat(c.texts))
  call('ZADD', OF .. c.tube, name, name)
  if c.batch ~= '' then call('ZADD', IN .. c.batch, name, name) end
  call('ZADD', UNTIL, format('%.0f', over), name)
  if over < sum.earliest then sum.earliest = over end
  for k, run in ipairs(runs_of(c.ids, c.mixed)) do entries[2 * k - 1], entries[2 * k] = '0', member_of(name, run) end
  add_all(IDS, entries)
end

-- last_with_room returns the last chunk of a tube if the records of c, the first one with that seq, can be appended to it. If not, it gives back what
-- Redis has reserved for that.
local function last_with_room(c, seq)
  if c.n > ENDED_FEW or c.bytes >= c.most then return nil end
  local name = call('ZREVRANGE', OF .. c.tube, '0', '0')[1]
  local last = name and read_head(name)
  if not last then return nil end
  local age = NOW - last.at
  if last.keep == c.keep and last.batch == c.batch and last.n + c.n <= ENDED_TOGETHER and last.bytes + c.bytes <= c.most and age >= 0
    and age < open_for(c.keep) and seq - last.seq < 2 ^ 32 and (c.batch == '' or call('ZREVRANGE', IN .. c.batch, '0', '0')[1] == name) then
    return last
  end
  if last.n > 1 then call('SET', CHUNK .. name, call('GET', CHUNK .. name)) end
end

-- join adds the runs of c to ended-ids, which are appended to a chunk. One that is next to others of that chunk becomes one with them, if they are not
-- behind too many of other chunks: that is looked up once.
local function join(name, c)
  local runs, gone, entries, last = runs_of(c.ids, c.mixed), {}, {}, nil
  local near = members_upto(format(ID_FORMAT, c.ids[c.n] + partitions), format('%d', 2 * #runs))
  for _, member in ipairs(near) do
    local first, n, of = parse_member(member)
    if of == name then runs[#runs + 1] = { first, n, member } end
  end
  if runs[2] then table.sort(runs, function(a, b) return a[1] < b[1] end) end
  for k = 1, #runs + 1 do
    local run = runs[k]
    if run and last and run[1] == last[1] + last[2] * partitions then
      gone[#gone + 1] = last[3]
      gone[#gone + 1] = run[3]
      last = { last[1], last[2] + run[2] }
    else
      if last and not last[3] then entries[#entries + 1], entries[#entries + 2] = '0', member_of(name, last) end
      last = run
    end
  end
  if gone[1] then call('ZREM', IDS, unpack(gone)) end
  call('ZADD', IDS, unpack(entries))
end

-- append_to appends the records of c, the first one with that seq, to a chunk.
local function append_to(last, c, seq)
  local key = CHUNK .. last.name
  call('APPEND', key, struct.pack('>I4I4I4', ENDED_MARK, seq - last.seq, NOW - last.at) .. concat(c.texts))
  call('SETRANGE', key, ENDED_COUNTS, struct.pack('>I4I2', last.bytes + c.bytes, last.n + c.n))
  join(last.name, c)
end

-- tell_of_written tells of the ends of the jobs whose records were written.
local function tell_of_written(written)
  if call('EXISTS', WAITS) == 0 then return end
  local ids = {}
  for _, c in ipairs(written) do
    for _, id in ipairs(c.ids) do ids[#ids + 1] = format(ID_FORMAT, id) end
  end
  E.tell(ids)
end

-- write_chunk writes records, and returns how many bytes those of the tube have then.
local function write_chunk(c)
  local seq = next_seq(c.n)
  local last = last_with_room(c, seq)
  if last then append_to(last, c, seq) else begin_chunk(c, seq) end
  local bytes = call('HINCRBY', BYTES, c.tube, format('%.0f', c.bytes))
  if bytes == c.bytes then call('ZADD', TUBES, format('%.0f', seq), c.tube) end
  return bytes
end

-- write writes all records that were added, and drops what is too much because of them: not more than twice as much, as a bound can have been
-- lowered. The rest is left to ticks.
function E.write()
  if not chunks[1] then return end
  local written, added, by_tube, now = chunks, 0, {}, {}
  chunks, open, sum.changed = {}, {}, true
  for _, c in ipairs(written) do
    now[c.tube] = write_chunk(c)
    added, total, by_tube[c.tube] = added + c.bytes, total + c.n, (by_tube[c.tube] or 0) + c.bytes
  end
  call('HSET', COUNTS, 'ended', format('%.0f', last_seq), 'ended-records', format('%.0f', total))
  local all = call('HINCRBY', BYTES, '', format('%.0f', added))
  for tube, size in pairs(by_tube) do
    local _, most = E.policy_of(tube)
    local excess = now[tube] - most
    if excess > 0 then all = all - E.drop_oldest(tube, math.min(excess, 2 * size), ENDED_AT_ONCE) end
  end
  if all > E.bound() then E.drop_oldest_of_all(math.min(all - E.bound(), 2 * added), ENDED_AT_ONCE) end
  tell_of_written(written)
end

-- each_record calls act with the id, the beginning and the end of each record in the text of a chunk, its seq, and when the job ended, until act returns
-- something. It returns that.
local function each_record(c, raw, act)
  local from, seq, at = c.from, c.seq, c.at
  while from <= #raw do
    local length = struct.unpack('>I4', raw, from)
    if length == ENDED_MARK then
      local more, later = struct.unpack('>I4I4', raw, from + 4)
      seq, at = c.seq + more, c.at + later
    else
      local found = act(struct.unpack('>I8', raw, from + 4), from + 4, from + 3 + length, seq, at)
      if found then return found end
      seq = seq + partitions
    end
    from = from + 4 + length
  end
end

-- forget_ids removes the members of ended-ids that a chunk has: runs of ids, which need not be as long as they could be.
local function forget_ids(c)
  local raw, ids, last, mixed = c.n > 1 and call('GET', CHUNK .. c.name) or c.raw, {}, 0, false
  each_record(c, raw, function(id) ids[#ids + 1], mixed, last = id, mixed or id < last, id end)
  local members = {}
  for k, run in ipairs(runs_of(ids, mixed)) do members[k] = member_of(c.name, run) end
  if call('ZREM', IDS, unpack(members)) == #members then return end
  for _, id in ipairs(ids) do
    local member = members_upto(format(ID_FORMAT, id), '1')[1]
    if select(3, parse_member(member)) == c.name then call('ZREM', IDS, member) end
  end
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
  forget_ids(c)
  call('DEL', CHUNK .. name)
  call('ZREM', OF .. c.tube, name)
  if c.batch ~= '' then call('ZREM', IN .. c.batch, name) end
  total = call('HINCRBY', COUNTS, 'ended-records', format('%d', -c.n))
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

-- read returns the record of a job, unless its time is over: the text before the records of its chunk, by how much its seq and its end are behind those
-- of the chunk, and the record. It returns nil if there is none.
function E.read(id)
  local first, n, name = parse_member(members_upto(id, '1')[1])
  if not first or (id - first) / partitions >= n then return nil end
  local c, raw = read_head(name), call('GET', CHUNK .. name)
  if not c then return nil end
  local found = each_record(c, raw, function(of, from, upto, seq, at)
    return of == tonumber(id) and { seq - c.seq, at - c.at, sub(raw, from, upto) }
  end)
  if found and c.at + found[2] + c.keep > NOW then return sub(raw, 1, c.from - 1), unpack(found) end
end

-- listed returns how many records of a chunk have a seq less than `before`, nil for any, and a time that is not over, and the size of their texts.
local function listed(c, raw, before)
  local n, size = 0, 0
  each_record(c, raw, function(_, from, upto, seq, at)
    if at + c.keep > NOW and (not before or seq < before) then n, size = n + 1, size + upto - from end
  end)
  return n, size
end

-- list returns chunks of a sorted set, the newest first, that have records with a seq less than `before`, nil for all, whose time is not over: about as
-- many as have n of these, or `most` bytes. If there are more it also returns the name of the last one that it has looked at, of up to ENDED_LOOK.
function E.list(set, before, n, most)
  local found, from, left, last = {}, before and call('ZCOUNT', set, format('%.0f', before), '+inf') or 0, ENDED_LOOK, nil
  while true do
    local names = call('ZREVRANGE', set, format('%d', from), format('%d', from + 49))
    for _, name in ipairs(names) do
      if n <= 0 or most <= 0 or left <= 0 then return found, last end
      local c = read_head(name)
      if c and c.at + c.keep + ENDED_OPEN > NOW then
        local raw, count, size = call('GET', CHUNK .. name), c.n, c.bytes
        if before or c.at + c.keep <= NOW then count, size = listed(c, raw, before) end
        if count > 0 then found[#found + 1], n, most = raw, n - count, most - size end
      end
      before, left, last = nil, left - 1, name -- the chunks behind have only those
    end
    if #names < 50 then return found end
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
  read_counts()
  if largest <= ENDED_READ_WHOLE then return call('MGET', unpack(ARGV, from, upto)) end
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
