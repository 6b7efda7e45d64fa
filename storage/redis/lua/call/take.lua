-- Takes of the first ready jobs of a tube, many at once.
--
-- Fast path: a take neither changes the records of the jobs, nor reads those whose bodies are
-- in the body cache. So it can be used only for the arrow 'reserve ready': by its record a job
-- is 'R' before and after, and its reserves are counted when it leaves the reserved state.
-- script_test.go checks these assumptions.
--
-- found, in the comments below, is the table that find_first returns:
--   count           how many jobs were found
--   names           the members of ready:TUBE that they are. If only a part of the last one, a
--                   range, is wanted, its name is that of that part
--   sizes           parallel to names: how many jobs it is
--   ttrs            likewise: the TTR of a range; nil for a single job
--   cached          likewise: true for a range whose bodies are in the body cache, unless the jobs
--                   are to be leased: then their records are needed
--   keys            of the jobs; but not those of a cached range that becomes a lease set,
--                   as they are not needed
--   any_cached      whether there is a cached range
--   urgent          how many jobs of ranges are urgent
--   joins           alternately a priority, and the change of joined for it
--   rest, rest_pri  what is left of the last range, and its priority
--
-- queue, in the comments, is ready:TUBE, or lone-ready:TUBE with the ready jobs of groups that have no
-- other one, see groups/lone.lua; lone says that it is that. Its jobs have metadata which says only
-- their group, unless they are single members.

-- add_range adds the first jobs of a range to found, up to n jobs in total. place is the index
-- of the range in names. It returns the new number of jobs.
local function add_range(found, place, member, count, n, set_from)
  local size, terms, pri, ttr, inst = string.match(member, '^;(%d+);((%d+);(%d+);(.*))', KEY_LENGTH + 1)
  local first, wanted = sub(member, 1, KEY_LENGTH), math.min(size, n - count)
  local id, left = tonumber(sub(member, #PREFIX + 1, KEY_LENGTH)), size - wanted
  local cached = not leasing and inst == INSTANCE and id >= CACHED_FROM
  if not cached or wanted < set_from then
    found.keys[count + 1] = first
    for k = 1, wanted - 1 do found.keys[count + 1 + k] = key_of(id + k * partitions) end
  end
  found.names[place], found.sizes[place], found.ttrs[place] = member, wanted, tonumber(ttr)
  found.cached[place], found.any_cached = cached, found.any_cached or cached
  local joins = found.joins
  joins[#joins + 1], joins[#joins + 2] = pri, math.max(left - 1, 0) - (size - 1)
  if tonumber(pri) < URGENT_BELOW then found.urgent = found.urgent + wanted end
  if left > 0 then
    found.names[place] = range_of(first, wanted, terms)
    found.rest, found.rest_pri = range_of(key_of(id + wanted * partitions), left, terms), pri
  end
  return count + wanted
end

-- find_first finds up to n ready jobs of a queue, and changes nothing. set_from is from how many jobs on
-- they become a lease set, LEASE_SET_FROM if it is nil. It reads only a few members at first, as they
-- can be ranges.
local FEW = 8
function find_first(queue, n, set_from)
  local keys, names, sizes, count, used = {}, {}, {}, 0, 0
  local found = { keys = keys, names = names, sizes = sizes, ttrs = {}, cached = {}, joins = {},
    any_cached = false, urgent = 0, count = 0 }
  repeat
    local want = used == 0 and n > FEW and FEW or n - count
    local members = call('ZRANGE', queue, format('%d', used), format('%d', used + want - 1))
    for k = 1, #members do
      if count == n then break end
      local member = members[k]
      used = used + 1
      if #member > KEY_LENGTH then
        count = add_range(found, used, member, count, n, set_from or LEASE_SET_FROM)
      else
        count = count + 1
        keys[count], names[used], sizes[used] = member, member, 1
      end
    end
  until count == n or #members < want
  found.count = count
  return found
end

-- not_cached returns the keys of the jobs in found whose bodies are not in the body cache.
local function not_cached(found)
  if not found.any_cached then return found.keys end
  local keys, before = {}, 0
  for place, size in ipairs(found.sizes) do
    if not found.cached[place] then
      for at = before + 1, before + size do keys[#keys + 1] = found.keys[at] end
    end
    before = before + size
  end
  return keys
end

-- add_records adds the records of the jobs in found to the reply, where they are needed. Jobs
-- without a record are dropped.
local function add_records(queue, found)
  local keys, base, sized = not_cached(found), #records, #sizes
  if not keys[1] then return end
  if largest >= LARGE then
    SLOW = SLOW or slow_functions()
    if not SLOW.add_any_size(keys) then SLOW.drop_lost(queue, found, base, sized) end
    return
  end
  local raw, at = call('MGET', unpack(keys)), base
  for k = 1, #keys do
    if raw[k] then
      at = at + 1
      records[at], carried = raw[k], carried + #raw[k]
    end
  end
  if at < base + #keys then
    SLOW = SLOW or slow_functions()
    SLOW.drop_lost(queue, found, base, sized)
  end
end

-- The TTR of the previous single job, and whether it was urgent. Mostly the next one has the
-- same terms, which are bytes of the record.
local last_terms, last_ttr, last_urgent
local function read_terms(record)
  local terms = sub(record, TERMS_FROM, TERMS_TO)
  if terms == last_terms then return end
  local ttr, pri = struct.unpack(TERMS, terms)
  last_terms, last_ttr, last_urgent = terms, ttr, pri < URGENT_BELOW
end

-- deadline_of returns the score of a job with a TTR that is reserved now.
local deadlines = {}
local function deadline_of(ttr)
  local at = NOW_UP + ttr * 1000
  if at < sum.earliest then sum.earliest = at end
  deadlines[ttr] = format('%.0f', at)
  return deadlines[ttr]
end

-- hold makes the jobs in found reserved jobs of this instance. Those of one range become a
-- lease set if they are many and have no metadata (all jobs of a range have it, or none) but perhaps
-- a group, if they are lone. The records that the instance needs are in the reply after the first base
-- ones. It returns how many of the single jobs are urgent.
function hold(found, base, lone)
  local entries, last, sets, before, urgent = {}, 0, nil, 0, 0
  for place, name in ipairs(found.names) do
    local size, ttr = found.sizes[place], found.ttrs[place]
    if not ttr then
      read_terms(records[base + 1])
      ttr = last_ttr
      if last_urgent then urgent = urgent + 1 end
    end
    local due = deadlines[ttr] or deadline_of(ttr)
    if size >= (lone and LONE_SET_FROM or LEASE_SET_FROM) and (found.cached[place] or lone or sub(records[base + 1], 1, 1) < 'a') then
      name = sub(name, 1, KEY_LENGTH) .. ';' .. size .. ';g' .. due
      entries[last + 1], entries[last + 2], last = due, name, last + 2
      sets = sets or {}
      sets[#sets + 1], sets[#sets + 2] = '0', name
      sum.in_sets = sum.in_sets + size
    else
      for at = before + 1, before + size do
        entries[last + 1], entries[last + 2], last = due, found.keys[at], last + 2
      end
    end
    if found.cached[place] then
      name = name .. '!'
    else
      base = base + size
    end
    taken[#taken + 1], before = name, before + size
  end
  if last > 0 then add_all(RESERVED, entries) end
  if sets then call('ZADD', LEASE_SETS, unpack(sets)) end
  return urgent
end

-- lease makes the jobs in found leased ones: their records, which are in the reply after the first
-- base ones, get tokens. It returns how many of the jobs are urgent.
function lease(found, base)
  local entries, writes, urgent = {}, {}, 0
  for k, key in ipairs(found.keys) do
    read_terms(records[base + k])
    if last_urgent then urgent = urgent + 1 end
    entries[#entries + 1], entries[#entries + 2] = deadlines[last_ttr] or deadline_of(last_ttr), key
    local token = large_tokens[key]
    if not token then
      records[base + k], token = with_token(records[base + k])
      writes[#writes + 1], writes[#writes + 2] = key, records[base + k]
      if SLOW then SLOW.lengths[key] = nil end
    end
    tokens[#tokens + 1], taken[#taken + 1] = token, key
  end
  if writes[1] then call('MSET', unpack(writes)) end
  if entries[1] then add_all(LEASES, entries) end
  return urgent
end

-- reserve_first takes up to n ready jobs of a tube, from a queue. It returns how many it got, whether there
-- may be more, and whether it got fewer because their records are too large. Two commands are
-- cheaper than ZPOPMIN, which formats the scores and searches for each member.
function reserve_first(tube, n, queue, lone)
  local found, cut = find_first(queue, n, lone and LONE_SET_FROM), false
  if found.count == 0 then return 0, false, false end
  largest = largest or tonumber(call('HGET', COUNTS, 'largest') or math.huge)
  if carried + found.count * largest > BUDGET then
    SLOW = SLOW or slow_functions()
    found, cut = SLOW.fit(queue, found)
    if found.count == 0 then return 0, false, true end
  end
  local count, base, used = found.count, #records, #found.names
  for k = 1, #found.joins, 2 do add_joined(tube, found.joins[k], found.joins[k + 1], lone) end
  if leasing then lease_large(found.keys) end
  add_records(queue, found)
  call('ZREMRANGEBYRANK', queue, '0', format('%d', used - 1))
  if found.rest then call('ZADD', queue, found.rest_pri, found.rest) end
  sum.urgent = sum.urgent - (leasing and lease(found, base) or found.urgent + hold(found, base, lone))
  sum.takes, sum.changed = sum.takes + found.count, true
  return found.count, count == n and not cut, cut
end
