-- delete_each deletes the jobs in ARGV from an index on that exist, whose groups are given. It answers
-- which these are, and returns how many, and the size of their bodies in bytes.
local function delete_each(t, first, groups)
  local each, count, size = {}, 0, 0
  for k, group in ipairs(groups) do
    local key = ARGV[first + k - 1]
    local j = SLOW.load(key)
    if call('ZREM', RESERVED, key) == 0 and j and SLOW.is_in_set(key) then sum.in_sets = sum.in_sets - 1 end
    if j then
      j.state = 'ready'
      if not leave_lone(t, group, j) then leave_ordinary(t, lane_of(t, group), j) end
      count, size = count + 1, size + SLOW.size_of(j)
      call('DEL', key)
    end
    each[k] = j and 1 or 0
  end
  answer(0)
  SLOW.answer_text(concat(each))
  return count, size
end

-- leave_lanes removes n jobs in ARGV, from an index on, from their groups, which follow. All are reserved.
local function leave_lanes(t, first, n)
  local ids, lone, names, from = call('HMGET', t.lone, unpack(ARGV, first + n, first + 2 * n - 1)), {}, {}, #PREFIX + 1
  local own, count, others, groups = t.lane, 0, {}, {}
  for k = 1, n do
    local id, group = sub(ARGV[first + k - 1], from), ARGV[first + n + k - 1]
    if ids[k] == id and not own[group] then
      count = count + 1
      lone[count] = group
    else
      others[#others + 1], groups[#groups + 1] = id, group
    end
  end
  read_lanes(t, groups)
  for k, group in ipairs(groups) do
    local lane = own[group]
    note_leaving(t, lane)
    names[k], lane.reserved = reserved_name(group, others[k]), false
    mark_dirty(t, lane)
  end
  if count > 0 then call('HDEL', t.lone, unpack(lone)) end
  if names[1] then call('ZREM', t.reserved, unpack(names)) end
end

-- are_held returns whether this instance has reserved n jobs in ARGV, from an index on, and removes them
-- from those. If they are in lease sets they stay there.
local function are_held(first, n, in_sets)
  if in_sets then return call('EXISTS', PREFIX .. 'flushed:' .. INSTANCE) == 0 end
  return call('ZREM', RESERVED, unpack(ARGV, first, first + n - 1)) == n
end

-- grouped-delete: deletes jobs with groups of a tube that connections of this instance hold
--
-- ARGV    'grouped-delete', tube, known, in_sets, size, about, n, ids…, groups…
--           known … about  as delete-held
-- Keys    as delete-held, and those of the lanes
-- Answer  as delete-held
--
-- As by delete-held the records are not read. So it can be used only for jobs that have no other
-- metadata than a group.
function G.delete_held(i)
  local t, in_sets, size, n = tube_of(ARGV[i]), ARGV[i + 2] == '1', ARGV[i + 3], tonumber(ARGV[i + 5])
  local first, last = i + 6, i + 5 + 2 * n
  SLOW.keep_held(t.name, first, n, ARGV[i + 4])
  if are_held(first, n, in_sets) then
    leave_lanes(t, first, n)
    n = call('DEL', unpack(ARGV, first, first + n - 1))
    if in_sets then sum.in_sets = sum.in_sets - n end
    answer(1)
  else
    n, size = delete_each(t, first, { unpack(ARGV, first + n, last) })
  end
  t.thinned, sum.changed, sum.deleted = true, true, sum.deleted + n
  deletes[t.name], bytes[t.name] = (deletes[t.name] or 0) + n, (bytes[t.name] or 0) - size
  wakeups[t.name] = (wakeups[t.name] or 0) + n
  if ARGV[i + 1] ~= '1' then SLOW.gone_from(t.name) end
  return last + 1
end
