-- The one script of the engine: it carries out a batch of operations in their
-- order, once. What nearly every batch does is at the top level; the rest, in
-- rare/, is wrapped into a function by the engine and only set up when an
-- operation asks for it, because Redis runs all of this anew in every call.
--
-- KEYS[1]  prefix of every key of the partition, such as 'redstalk:{0}:'.
--          All other keys begin with it and so live in the same slot.
-- ARGV[1]  name of this instance, 8 characters
-- ARGV[2]  number of this batch, 16 digits
-- ARGV[3]  number of the last batch that was recorded, '' before the first, which
--          has to be a registration
-- ARGV[4]  how many jobs the batch puts
-- ARGV[5]  '', or what is out of the ordinary, words with a value each:
--            partitions=N  in all, if not 1
--            number=N      of this partition, if not 0
--            least=N       the number of the first job put is to be above this,
--                          so that ids of several partitions grow with time
--            register=1    the batch is the first under this name: it says that
--                          there is an instance, and does nothing else
--            largest=N     no record that the batch puts has more bytes; other
--                          batches may have put none as large
--            ahead=MS      to add to the clock, in tests
--            step=MS       the same, and the reply tells the clock with it
--            group=N       how many jobs make a group, in tests
--            budget=N      bytes of records that one reply brings, in tests
--            full=1        Redis has refused to write for want of memory: do
--                          what is asked all the same, which puts nothing
--            pulse=1       a heartbeat beside a batch that takes long: it does
--                          nothing else, whatever the numbers, and says nothing
--            void=1        say 'void;' and record that: the batch is not to be
--                          carried out any more
-- ARGV[6]  the instance remembers the bodies of its own runs from the job of this
--          number on, see below
-- ARGV[7…] the operations, each a word and its arguments, as their functions say
--
-- Reply: { said, ids, records… }, or the error LOST, see below
--   said     in a row: seconds of the clock, 0 in an answer given again, and
--            microseconds; 1 if the batch was recorded, else 0; the number of the first job
--            put; microseconds until the first thing that this batch made due,
--            -1 if none; how many hints and the hints, which are names of
--            tubes in which somebody at this instance may take a job; and the
--            answers of all operations. Numbers end with ';', texts begin with
--            their length and ':'
--   ids      of the jobs that takes in bulk have taken, in their order, and with
--            commas between them; for a run of them, see below, that of the
--            first, ';' and how many, and whatever; if they are a group, its
--            name. Behind those that the instance remembers there is '!'
--   records  of those that it does not
--
-- A batch that changes something records its number and what was said. Sent
-- again, because the answer was lost, it gets the same answer and changes
-- nothing; asked whether it is void, it gets it without records. A batch must follow
-- the one recorded: else Redis has lost data, or others have declared this instance
-- dead, or the batch was held up on its way and its sender knows better by now.
-- Then nothing is done, and LOST said. Only a registration follows nothing. So a
-- batch that does work is never done again once its instance was declared dead,
-- and whoever reserves a job is known to the others before.
--
-- A reply brings records of about BUDGET bytes at most, or a single one. A take
-- beyond that is answered as cut: there may be a job, and it has to be asked for
-- again in another call.
--
-- Keys, behind the prefix:
--   ID              string: header, name of the tube, body of a job (rare/20_record.lua)
--   ready:TUBE      ZSET of ids by priority, and of runs: jobs put together whose
--                   numbers follow each other, all with one priority and TTR, are
--                   one member, 'ID;how many;priority;TTR;INST', until they are
--                   taken. INST is who has put them, if that instance remembers
--                   their bodies for a while; else there is nothing
--   delayed:TUBE    ZSET of ids by due time
--   buried:TUBE     ZSET of ids by the number of the burial. Not a list: to
--                   take one job out of a long list means to scan it
--   reserved:INST   ZSET of ids, and of groups, by TTR deadline. Who of the
--                   instance's connections holds a job only the instance knows
--   groups:INST     ZSET of groups, all with score 0. Jobs of a run that were
--                   reserved together, with one TTR, are one member of this and
--                   of the former, 'ID;how many;gDEADLINE'. Those that were
--                   deleted stay in it, and have no record any more. Before
--                   anything else becomes of one the group is split: those that
--                   are left become members of their own
--   batch:INST      string: number of the last batch, and its answer; or 'dead', for a
--                   day, where the instance was declared dead
--   tube:TUBE       hash: total, deletes, pauses; joined: how many more ready
--                   jobs there are than members, because of runs; joined-urgent:
--                   the urgent ones of these
--   tubes           ZSET of the names of all tubes, in the order of list-tubes
--   paused          hash of paused tubes: 'seconds until'
--   timers          ZSET by time: 'd:TUBE' first delayed job (or earlier),
--                   'p:TUBE' end of the pause
--   attending:TUBE  hash of instances: 'using watching waiting'
--   waiting:TUBE    ZSET of instances where somebody waits for a job, by time
--   mail:INST       list of tubes: what instances tell each other
--   instances       ZSET of instances by their last sign of life
--   counts          hash: ids, burials, opened (numbers given out), skipped
--                   (of ids); urgent, delayed, buried, deleted, timeouts;
--                   grouped: jobs in groups, but for the deleted ones; largest:
--                   no record has more bytes than this, if it is there
--
-- ID is the decimal number with 16 digits, so that equal scores come out in the
-- order of ids. What ZSETs have as ids, and operations are given and answer as
-- such, are the whole keys of the jobs: nothing has to be joined to go from one
-- to the other. Times are ms since the epoch.
--
-- What makes a call dear: each redis.call (half a microsecond and what it does),
-- each function set up, by the locals it refers to; numbers printed, which
-- redis.call does with 17 digits, so they are given to it as text; and strings:
-- Lua looks at each byte of every new one to find out whether it has it already.

local PREFIX, ME, NUMBER, OPTIONS = KEYS[1], ARGV[1], ARGV[2], ARGV[5]
local call, sub, byte, format, concat = redis.call, string.sub, string.byte, string.format, table.concat
local READY, BATCH = PREFIX .. 'ready:', PREFIX .. 'batch:' .. ME
local REMEMBERED = tonumber(ARGV[6])
local RESERVED, GROUPS = PREFIX .. 'reserved:' .. ME, PREFIX .. 'groups:' .. ME
local COUNTS = PREFIX .. 'counts'
local URGENT_BELOW = 1024

local partitions, partition, least, ahead, void, group_from = 1, 0, 0, 0, false, 16
local registering, pulse, largest_put, BUDGET, step = false, false, nil, 1048576, 0
if OPTIONS ~= '' then
  local option = {}
  for name, value in string.gmatch(OPTIONS, '(%l+)=(%-?%d+)') do option[name] = tonumber(value) end
  partitions, partition, ahead = option.partitions or 1, option.number or 0, option.ahead or 0
  least, group_from = option.least or 0, option.group or group_from
  void, registering = option.void == 1, option.register == 1
  pulse = option.pulse == 1
  largest_put, BUDGET = option.largest, option.budget or BUDGET
  step = option.step or 0
  -- Redis lets a script write that has written before memory ran out; so the
  -- first write, here, is one that needs none.
  if option.full then call('DEL', PREFIX .. 'none') end
end

local LENGTH = #PREFIX + 16 -- of the key of a job

-- NOW is for asking whether something is due, NOW_UP for saying when it will
-- be: so that nothing is ever early.
local clock = call('TIME')
if step ~= 0 then clock[1] = format('%.0f', clock[1] + (step - step % 1000) / 1000) end
local MS = clock[1] * 1000 + clock[2] / 1000 + ahead
local NOW = MS - MS % 1
local NOW_UP = NOW + 1

-- The recorded batch: its number, the ids of the jobs that it took in bulk, with
-- their length, and what it said.
local recorded = call('GET', BATCH) or ''
local last = sub(recorded, 1, 16)
if last ~= ARGV[3] or last == '' and not registering then
  if last == 'dead' then return redis.error_reply('LOST the instance was declared dead') end
  if pulse and last ~= '' then
    call('ZADD', PREFIX .. 'instances', 'XX', format('%.0f', NOW), ME)
    return 1
  end
  if last ~= NUMBER then
    return redis.error_reply('LOST the batch does not follow the last one of its instance')
  end
  -- Written again: whoever waits for replicas has to wait for something. The first
  -- of the two needs no memory, and so allows for the second where there is none.
  call('DEL', PREFIX .. 'none')
  call('SET', BATCH, recorded)
  local len, at = string.match(recorded, '^%d+;(%d+);()')
  local ids, from = sub(recorded, at, at + len - 1), 1
  local again = { sub(recorded, at + len), ids }
  while from < #ids do
    local first = sub(ids, from, from + LENGTH - 1)
    local n, remembered, behind = string.match(ids, '^;?(%d*)[^,!]*(!?),?()', from + LENGTH)
    for k = 1, remembered == '' and not void and (tonumber(n) or 1) or 0 do
      local id = tonumber(sub(first, -16)) + (k - 1) * partitions
      again[#again + 1] = call('GET', PREFIX .. format('%016.0f', id)) or ''
    end
    from = behind
  end
  return again
end

if largest_put then
  local most = call('HGET', COUNTS, 'largest')
  if most and tonumber(most) < largest_put then call('HSET', COUNTS, 'largest', format('%d', largest_put)) end
end

-- If Redis has no memory for a batch that puts, this says so, and as it is the
-- first write, nothing has happened yet.
local first_id = 0
if ARGV[4] ~= '0' then
  first_id = call('HINCRBY', COUNTS, 'ids', ARGV[4]) - ARGV[4] + 1
  if first_id <= least then
    local by = format('%.0f', least + 1 - first_id)
    call('HINCRBY', COUNTS, 'ids', by)
    call('HINCRBY', COUNTS, 'skipped', by)
    first_id = least + 1
  end
end

-- What the batch comes to, for the functions in rare/ to add to: whether it
-- has changed anything that must not be done twice; how many of its jobs are
-- put, and taken in bulk; when the first thing is due that it made so; and by
-- how much the counters change. The number of ready jobs is not among these:
-- it follows from the others.
local sum = { changed = void, puts = 0, takes = 0, earliest = math.huge,
  urgent = 0, delayed = 0, buried = 0, deleted = 0, timeouts = 0, grouped = 0 }
local totals, deletes, roused = {}, {}, {} -- by tube: jobs put, deleted, become ready
local joined, joined_urgent = {}, {} -- the same, as in the keys
local said, taken, records = {}, {}, { '', '' } -- see the reply; taken are the ids
if void then said[1] = 'void;' end

local rare, R -- the function of rare/, and what it has returned, once it is needed

-- Each tube is looked up once in a batch, when first asked for; none if no tube at
-- all is paused.
local paused, any_paused = {}, nil
local function is_paused(tube)
  if any_paused == nil then any_paused = call('EXISTS', PREFIX .. 'paused') == 1 end
  if not any_paused then return false end
  if paused[tube] == nil then paused[tube] = call('HGET', PREFIX .. 'paused', tube) ~= false end
  return paused[tube]
end

-- carried is how many bytes of records the reply brings so far; largest is how many
-- one may have, once that is asked.
local carried, largest = 0, nil

-- key_of names a job. Mostly only the last two digits change: stem is what comes
-- before them. To look these up is cheaper than to print them.
local DIGITS = '00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899'
local hundred, stem
local function key_of(id)
  local low = id % 100
  if hundred ~= id - low then
    hundred = id - low
    stem = PREFIX .. format('%014.0f', hundred / 100)
  end
  return stem .. sub(DIGITS, 2 * low + 1, 2 * low + 2)
end

-- new_job names the next job of the batch, and keeps its record to be written:
-- records of new jobs are written together, before anything may read them.
local news, words = {}, 0
local function write_news()
  if words > 0 then call('MSET', unpack(news, 1, words)) end
  words = 0
end

local function new_job(record)
  local member = key_of((first_id + sum.puts) * partitions + partition)
  sum.puts = sum.puts + 1
  news[words + 1], news[words + 2] = member, record
  words = words + 2
  if words >= 1000 then write_news() end
  return member
end

-- run_of names a run that begins with a job; one job needs none. terms are what
-- comes behind how many there are.
local function run_of(key, n, terms)
  if n == 1 then return key end
  return key .. ';' .. n .. ';' .. terms
end

-- join counts how many more jobs than members there are of a priority.
local function join(tube, pri, by)
  joined[tube] = (joined[tube] or 0) + by
  if tonumber(pri) < URGENT_BELOW then joined_urgent[tube] = (joined_urgent[tube] or 0) + by end
end

-- add_all adds entries, scores and members, to a ZSET. One that stays small is
-- kept as a list by Redis and searched for each entry, until it has grown. If
-- that is to be expected, a member too long for such a list keeps it from
-- becoming one.
local LONG = string.rep('-', 65)
local function add_all(key, entries)
  local n = #entries / 2
  if n >= 8 then
    local have = call('ZCARD', key)
    if have < 128 and have + n > 64 then
      call('ZADD', key, '0', LONG, unpack(entries))
      call('ZREM', key, LONG)
      return
    end
  end
  call('ZADD', key, unpack(entries))
end

-- first_ready finds up to n ready jobs of a tube: how many, their keys, and of the
-- members of its ZSET that these are what the reply calls them, how many jobs each
-- has, the TTR of runs, and which of them this instance remembers;
-- how many jobs of runs are urgent; and if the last member is a run of which
-- something is left, that and its priority. It asks for a few members first, as
-- they may be runs. Nobody needs the keys of those that are remembered and become
-- a group; they are left out. Nothing is changed, not even the counters of runs: joins
-- are priorities, and by how much these are to change.
local FEW = 8
local function first_ready(tube, n)
  local keys, names, sizes, ttrs, own, owns, joins = {}, {}, {}, {}, {}, false, {}
  local found, used, urgent, rest, rest_pri = 0, 0, 0, nil, nil
  repeat
    local want = used == 0 and n > FEW and FEW or n - found
    local members = call('ZRANGE', READY .. tube, format('%d', used), format('%d', used + want - 1))
    local k = 0
    while k < #members and found < n do
      k = k + 1
      local member = members[k]
      found, used = found + 1, used + 1
      keys[found], names[used], sizes[used] = member, member, 1
      if #member > LENGTH then
        local len, terms, pri, ttr, inst = string.match(member, '^;(%d+);((%d+);(%d+);(.*))', LENGTH + 1)
        local key = sub(member, 1, LENGTH)
        local id, m = tonumber(sub(key, -16)), math.min(len, n - found + 1)
        local left = len - m
        own[used] = inst == ME and id >= REMEMBERED
        owns = owns or own[used]
        if not own[used] or m < group_from then
          keys[found] = key
          for i = 1, m - 1 do keys[found + i] = key_of(id + i * partitions) end
        end
        found, sizes[used], ttrs[used] = found + m - 1, m, tonumber(ttr)
        joins[#joins + 1], joins[#joins + 2] = pri, math.max(left - 1, 0) - (len - 1)
        if tonumber(pri) < URGENT_BELOW then urgent = urgent + m end
        if left > 0 then
          names[used] = run_of(key, m, terms)
          rest, rest_pri = run_of(key_of(id + m * partitions), left, terms), pri
        end
      end
    end
  until found == n or #members < want
  return { found = found, keys = keys, names = names, sizes = sizes, ttrs = ttrs, own = own, owns = owns,
    urgent = urgent, rest = rest, rest_pri = rest_pri, joins = joins }
end

-- not_remembered returns the keys of those jobs that first_ready has found whose
-- records are needed.
local function not_remembered(f)
  if not f.owns then return f.keys end
  local wanted, k = {}, 0
  for i, n in ipairs(f.sizes) do
    for at = k + 1, f.own[i] and k or k + n do wanted[#wanted + 1] = f.keys[at] end
    k = k + n
  end
  return wanted
end

-- The TTR is in bytes 2 to 5 of a record, the priority in 6 to 9. Deadlines are
-- kept by TTR.
local function terms_of(record)
  local t1, t2, t3, t4, p1, p2, p3 = byte(record, 2, 8)
  return ((t1 * 256 + t2) * 256 + t3) * 256 + t4, p1 == 0 and p2 == 0 and p3 < URGENT_BELOW / 256
end

local deadlines = {}
local function deadline_for(ttr)
  local at = NOW_UP + ttr * 1000
  if at < sum.earliest then sum.earliest = at end
  deadlines[ttr] = format('%.0f', at)
  return deadlines[ttr]
end

-- hold_all puts jobs that first_ready has found among the reserved ones; those of
-- one name as a group if they are many, which then is their name. The records of
-- those that the instance does not remember are behind the first base ones. It
-- returns how many of the single ones are urgent.
local function hold_all(f, base)
  local entries, last, groups, k, urgent = {}, 0, nil, 0, 0
  local terms, its_ttr, is_urgent
  for i, name in ipairs(f.names) do
    local n, ttr = f.sizes[i], f.ttrs[i]
    if not ttr then
      local its = sub(records[base + 1], 2, 9)
      if its ~= terms then
        terms, its_ttr, is_urgent = its, terms_of(records[base + 1])
      end
      ttr = its_ttr
      if is_urgent then urgent = urgent + 1 end
    end
    local due = deadlines[ttr] or deadline_for(ttr)
    if n >= group_from then
      name = sub(name, 1, LENGTH) .. ';' .. n .. ';g' .. due
      entries[last + 1], entries[last + 2], last = due, name, last + 2
      groups = groups or {}
      groups[#groups + 1], groups[#groups + 2] = '0', name
      sum.grouped = sum.grouped + n
    else
      for at = k + 1, k + n do
        entries[last + 1], entries[last + 2], last = due, f.keys[at], last + 2
      end
    end
    if f.own[i] then
      name = name .. '!'
    else
      base = base + n
    end
    taken[#taken + 1], k = name, k + n
  end
  if last > 0 then add_all(RESERVED, entries) end
  if groups then call('ZADD', GROUPS, unpack(groups)) end
  return urgent
end

-- reserve_first takes up to n ready jobs of a tube and returns how many it
-- got, whether there may be more, and whether it got fewer because their records
-- are too large. Jobs whose record is lost are dropped. ZPOPMIN would do, but
-- prints all scores, and looks for each member anew.
local function reserve_first(tube, n)
  local f, cut = first_ready(tube, n), false
  if f.found == 0 then return 0, false, false end
  largest = largest or tonumber(call('HGET', COUNTS, 'largest') or math.huge)
  if carried + f.found * largest > BUDGET then
    R = R or rare()
    f, cut = R.fit(tube, f)
    if f.found == 0 then return 0, false, true end
  end
  local found, base = f.found, #records
  local used = #f.names
  for k = 1, #f.joins, 2 do join(tube, f.joins[k], f.joins[k + 1]) end
  local wanted, at = not_remembered(f), base
  local got = wanted[1] and call('MGET', unpack(wanted))
  for k = 1, #wanted do
    if got[k] then
      at = at + 1
      records[at], carried = got[k], carried + #got[k]
    end
  end
  if at < base + #wanted then
    R = R or rare()
    R.drop_lost(tube, f, base)
  end
  call('ZREMRANGEBYRANK', READY .. tube, '0', format('%d', used - 1))
  if f.rest then call('ZADD', READY .. tube, f.rest_pri, f.rest) end
  sum.urgent = sum.urgent - f.urgent - hold_all(f, base)
  sum.takes, sum.changed = sum.takes + f.found, true
  return f.found, found == n and not cut, cut
end
