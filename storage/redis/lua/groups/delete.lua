-- delete_each deletes the jobs in ARGV from an index on that exist, whose groups are given. It answers
-- which these are, and returns how many, and the size of their bodies in bytes.
local function delete_each(t, first, groups)
  local each, count, size = {}, 0, 0
  for k, group in ipairs(groups) do
    local key = ARGV[first + k - 1]
    local j = OPS.load(key)
    if call('ZREM', RESERVED, key) == 0 and j and OPS.is_in_set(key) then sum.grouped = sum.grouped - 1 end
    if j then
      j.state = 'ready'
      if not leave_lone(t, group, j) then leave_ordinary(t, lane_of(t, group), j) end
      count, size = count + 1, size + OPS.size_of(j)
      call('DEL', key)
    end
    each[k] = j and 1 or 0
  end
  answer(0)
  OPS.answer_text(concat(each))
  return count, size
end

-- leave_lanes removes jobs in ARGV, from an index on, from their groups. All are reserved.
local function leave_lanes(t, first, groups)
  local ids, lone, names = call('HMGET', t.lone, unpack(groups)), {}, {}
  for k, group in ipairs(groups) do
    local id = sub(ARGV[first + k - 1], #PREFIX + 1)
    if ids[k] == id and not t.lane[group] then
      lone[#lone + 1] = group
    else
      local lane = lane_of(t, group)
      names[#names + 1], lane.reserved = reserved_name(group, id), false
      dirty(t, lane)
    end
  end
  if lone[1] then call('HDEL', t.lone, unpack(lone)) end
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
-- ARGV    'grouped-delete', tube, known, in_sets, size, n, ids…, groups…
--           known, in_sets, size  as delete-held
-- Keys    as delete-held, and those of the lanes
-- Answer  as delete-held
--
-- As by delete-held the records are not read. So it can be used only for jobs that have no other
-- metadata than a group.
OPS['grouped-delete'] = function(i)
  local t, in_sets, size, n = open(ARGV[i]), ARGV[i + 2] == '1', ARGV[i + 3], tonumber(ARGV[i + 4])
  local first, groups = i + 5, { unpack(ARGV, i + 5 + n, i + 4 + 2 * n) }
  if are_held(first, n, in_sets) then
    leave_lanes(t, first, groups)
    n = call('DEL', unpack(ARGV, first, first + n - 1))
    if in_sets then sum.grouped = sum.grouped - n end
    answer(1)
  else
    n, size = delete_each(t, first, groups)
  end
  if has(t, 'group-limits') then note_leaving(t, groups) end
  t.thinned, sum.changed, sum.deleted = true, true, sum.deleted + n
  deletes[t.name], bytes[t.name] = (deletes[t.name] or 0) + n, (bytes[t.name] or 0) - size
  wakeups[t.name] = (wakeups[t.name] or 0) + n
  if ARGV[i + 1] ~= '1' then OPS.gone_from(t.name) end
  return first + 2 * #groups
end
