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

-- enter_lone adds jobs to the lone ones: keys[k], for each k in which. pris has their priorities, or is the
-- priority of all. With terms they are in ranges, for each of which the index of its first job, from 0,
-- and how many it has are added to runs.
local function enter_lone(t, keys, pris, which, terms, runs)
  local entries, last, n, at, same = {}, 0, #which, 1, type(pris) == 'string' and pris
  while at <= n do
    local first, size = which[at], 1
    while terms and which[at + size] == first + size do size = size + 1 end
    local pri, name = same or pris[first], keys[first]
    if size > 1 then
      name = SLOW.range_of(name, size, terms)
      add_joined(t.name, pri, size - 1, true)
      runs[#runs + 1], runs[#runs + 2] = first - 1, size
    end
    entries[last + 1], entries[last + 2], last, at = pri, name, last + 2, at + size
  end
  add_all(t.lone_ready, entries)
end

-- enter_ordinary adds jobs to their lanes, which were read: keys[k], for each k in which.
local function enter_ordinary(t, keys, pris, groups, which)
  local names, queue = {}, {}
  for n, k in ipairs(which) do
    local key, group, pri = keys[k], groups[k], type(pris) == 'string' and pris or pris[k]
    local first = first_of(pri, sub(key, #PREFIX + 1))
    becomes_ready(t, lane_of(t, group), first, true)
    names[2 * n - 1], names[2 * n] = '0', ready_name(group, first)
    queue[2 * n - 1], queue[2 * n] = pri, key
  end
  add_all(t.jobs, names)
  add_all(t.ready, queue)
end

-- enter_new adds jobs that were put to the ready ones: keys, and parallel to them groups and pris, which
-- can be the priority of all. With terms all have the same priority and TTR, and consecutive numbers;
-- then the ranges that they have become are added to runs.
function G.enter_new(tube, keys, pris, groups, terms, runs)
  local t, from, n, lone, others, seen, fields = tube_of(tube), #PREFIX + 1, 0, {}, {}, {}, {}
  local ids, lanes, limits, pauses = read_taken(t, groups, sub(keys[1], from))
  local own = t.lane
  list_tube(t)
  for k, group in ipairs(groups) do
    if not ids or ids[k] or lanes[k] or limits[k] or pauses[k] or seen[group] or own[group] then
      others[#others + 1] = k
      if ids and not own[group] and (ids[k] or lanes[k]) then keep_lane(t, group, ids[k], lanes[k]) end
    else
      n, seen[group] = n + 1, true
      lone[n], fields[2 * n - 1], fields[2 * n] = k, group, sub(keys[k], from)
    end
  end
  if n > 0 then
    set_all(t.lone, fields)
    enter_lone(t, keys, pris, lone, terms, runs)
  end
  if others[1] then enter_ordinary(t, keys, pris, groups, others) end
end
