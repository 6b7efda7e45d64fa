-- Keys of jobs, new jobs, and ranges.

-- key_of returns the key of a job. Mostly only the last two digits differ from those of the job
-- before. They are looked up, which is cheaper than formatting; stem is what precedes them.
local DIGITS = '00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899'
local hundred, stem
local function key_of(id)
  local low = id % 100
  if hundred ~= id - low then
    hundred = id - low
    stem = sub(PREFIX .. format(ID_FORMAT, hundred), 1, -3)
  end
  return stem .. sub(DIGITS, 2 * low + 1, 2 * low + 2)
end

-- new_job returns the key of the next job of the call, and remembers its record. Records of
-- new jobs are written together, by write_new_jobs, before an operation can read them. An empty
-- record stands for the next staged one, which is renamed to the key of the job.
local unwritten, words, adopted = {}, 0, 0
local function write_new_jobs()
  if words > 0 then call('MSET', unpack(unwritten, 1, words)) end
  words = 0
end

local function new_job(record)
  local key = key_of((first_number + sum.puts) * partitions + partition)
  sum.puts = sum.puts + 1
  if record == '' then
    adopted = adopted + 1
    call('RENAME', STAGED .. adopted, key)
    call('PERSIST', key)
    return key
  end
  unwritten[words + 1], unwritten[words + 2] = key, record
  words = words + 2
  if words >= 1000 then write_new_jobs() end
  return key
end

-- range_of returns the name of a range of n jobs, of which key is the first, or that key if it
-- is the only one. terms is the part of the name after the count.
local function range_of(key, n, terms)
  if n == 1 then return key end
  return key .. ';' .. n .. ';' .. terms
end

-- add_joined adds to the difference between jobs and members in ready:TUBE and lone-ready:TUBE; lone
-- says that it is the latter.
local function add_joined(tube, pri, by, lone)
  if lone then sum.lone[tube] = (sum.lone[tube] or 0) + by end
  joined[tube] = (joined[tube] or 0) + by
  if tonumber(pri) < URGENT_BELOW then joined_urgent[tube] = (joined_urgent[tube] or 0) + by end
end

-- add_all adds entries, alternately scores and members, to a sorted set: a whole table, or
-- those from one index to another. Redis stores a small set as a list, in which it searches for
-- each entry. If the set is about to outgrow that, adding a member too long for a list makes
-- Redis convert it to a tree first.
local LONG = string.rep('-', 65)
local function add_all(key, entries, from, to)
  from, to = from or 1, to or #entries
  local n = (to - from + 1) / 2
  if n >= 8 then
    local have = call('ZCARD', key)
    if have < 128 and have + n > 64 then
      call('ZADD', key, '0', LONG, unpack(entries, from, to))
      call('ZREM', key, LONG)
      return
    end
  end
  call('ZADD', key, unpack(entries, from, to))
end

-- look_for_any finds out whether any tube is paused or has limits for puts. It is called once in
-- a call. is_limited is nil if there is neither; else it returns whether the policy of a tube, or
-- of one of its prefixes, concerns puts.
local paused, any_paused, any_quota, is_limited = {}, nil, nil, nil
local function look_for_any()
  local any = call('EXISTS', PREFIX .. 'paused', PREFIX .. 'quotas', PREFIX .. 'prefix-limits') > 0
  any_quota, any_paused = any, any
  if not any then return end
  local limited, prefixes = {}, call('EXISTS', PREFIX .. 'prefix-limits') == 1
  local function has_prefix(tube)
    local patterns = {}
    for n = 0, #tube do patterns[n + 1] = sub(tube, 1, n) .. '*' end
    for _, limits in ipairs(call('HMGET', PREFIX .. 'prefix-limits', unpack(patterns))) do
      if limits then return true end
    end
    return false
  end
  function is_limited(tube)
    if limited[tube] == nil then
      limited[tube] = call('HEXISTS', PREFIX .. 'quotas', tube) == 1 or prefixes and has_prefix(tube)
    end
    return limited[tube]
  end
end

-- is_paused looks up each tube once in a call, and none if no tube at all is paused.
local function is_paused(tube)
  if any_paused == nil then look_for_any() end
  if not any_paused then return false end
  if paused[tube] == nil then paused[tube] = call('HGET', PREFIX .. 'paused', tube) ~= false end
  return paused[tube]
end

