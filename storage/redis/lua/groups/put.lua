-- Puts of jobs with groups.

-- set_all sets fields of a hash: alternately fields and values. A small hash is stored like a small set,
-- and grows likewise, see add_all.
local function set_all(key, fields)
  if #fields >= 16 then
    local have = call('HLEN', key)
    if have < 128 and 2 * have + #fields > 128 then
      call('HSET', key, '', string.rep('-', 65), unpack(fields))
      call('HDEL', key, '')
      return
    end
  end
  call('HSET', key, unpack(fields))
end

-- enter_lone makes jobs lone: keys[k], for each k in which. With terms they are in ranges, for each of
-- which the index of its first job, from 0, and how many it has are added to runs.
local function enter_lone(t, keys, pris, which, terms, runs)
  local entries, n, at = {}, #which, 1
  while at <= n do
    local first, size = which[at], 1
    while terms and which[at + size] == first + size do size = size + 1 end
    if size > 1 then
      add_joined(t.name, pris[first], size - 1, true)
      runs[#runs + 1], runs[#runs + 2] = first - 1, size
    end
    entries[#entries + 1], entries[#entries + 2] = pris[first], OPS.range_of(keys[first], size, terms)
    at = at + size
  end
  add_all(t.lone_ready, entries)
end

-- enter_ordinary adds jobs to their lanes: keys[k], for each k in which.
local function enter_ordinary(t, keys, pris, groups, which)
  local names, queue = {}, {}
  for n, k in ipairs(which) do
    local key, group = keys[k], groups[k]
    local first = first_of(pris[k], sub(key, #PREFIX + 1))
    becomes_ready(t, lane_of(t, group), first, true)
    names[2 * n - 1], names[2 * n] = '0', ready_name(group, first)
    queue[2 * n - 1], queue[2 * n] = pris[k], key
  end
  add_all(t.jobs, names)
  add_all(t.ready, queue)
end

-- enter_new adds jobs that were put to the ready ones: keys, and parallel to them pris and groups. With
-- terms all have the same priority and TTR, and consecutive numbers; then the ranges that they have
-- become are added to runs.
function G.enter_new(tube, keys, pris, groups, terms, runs)
  local t = open(tube)
  list(t)
  local can, seen, lone, others, fields = can_be_lone(t, groups, sub(keys[1], #PREFIX + 1)), {}, {}, {}, {}
  for k, group in ipairs(groups) do
    if can and not seen[group] and can(k) then
      lone[#lone + 1], seen[group] = k, true
      fields[#fields + 1], fields[#fields + 2] = group, sub(keys[k], #PREFIX + 1)
    else
      others[#others + 1] = k
    end
  end
  if lone[1] then
    set_all(t.lone, fields)
    enter_lone(t, keys, pris, lone, terms, runs)
  end
  if others[1] then enter_ordinary(t, keys, pris, groups, others) end
end

-- count_puts counts jobs that were put, for grouped-put, whose arguments begin at i.
local function count_puts(i, limits, keys, pris)
  local tube, n = ARGV[i], #keys
  wakeups[tube] = (wakeups[tube] or 0) + n
  if limits then
    OPS.expire_put(keys, limits, 0)
    for _, pri in ipairs(pris) do
      if tonumber(pri) < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
    end
  else
    totals[tube], bytes[tube], sum.urgent = (totals[tube] or 0) + n, (bytes[tube] or 0) + ARGV[i + 4], sum.urgent + ARGV[i + 3]
  end
  if ARGV[i + 1] ~= '1' then OPS.put_in(tube) end
end

-- grouped-put: adds jobs with groups, and no other tags, to a tube, without a delay
--
-- ARGV    'grouped-put', tube, known, n, urgent, size, pri, terms, groups…, records…
--           known … terms  as put
--           groups         of each job
--           records        of each; if pri is '' each is preceded by the priority
-- Keys    writes the records, tube:TUBE, counts, and the keys of the lanes; reads quotas, prefix-limits
-- Answer  how many ranges the jobs have become, and for each the index of its first job, from 0, and how
--         many jobs it has. The numbers of the jobs follow from the first one, which each reply has
OPS['grouped-put'] = function(i)
  local tube, n, pri, terms = ARGV[i], tonumber(ARGV[i + 2]), ARGV[i + 5], ARGV[i + 6]
  local step = pri == '' and 2 or 1
  local last, limits, keys, pris, groups, runs = i + 6 + n + step * n, OPS.limits_of(tube), {}, {}, {}, {}
  for k = 1, n do
    local at, count = i + 6 + n + step * k, #keys + 1
    if not limits or OPS.admit_record(tube, limits, ARGV[at], true) then
      keys[count], pris[count], groups[count] = new_job(ARGV[at]), step == 2 and ARGV[at - 1] or pri, ARGV[i + 6 + k]
    end
  end
  if keys[1] then
    sum.changed = true
    write_new_jobs()
    G.enter_new(tube, keys, pris, groups, not limits and terms ~= '' and terms or nil, runs)
    count_puts(i, limits, keys, pris)
  end
  answer(#runs / 2)
  for _, run in ipairs(runs) do answer(run) end
  return last + 1
end
