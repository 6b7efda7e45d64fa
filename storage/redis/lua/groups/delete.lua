-- delete_each deletes the jobs in ARGV from an index on that exist, whose groups are given. It answers
-- which these are, and returns how many, and the size of their bodies in bytes.
local function delete_each(t, first, groups)
  local each, count, size = {}, 0, 0
  for k, group in ipairs(groups) do
    local key = ARGV[first + k - 1]
    local j = OPS.load(key)
    if j then
      leave_ready(t, t.lane[group], j, sub(key, #PREFIX + 1))
      count, size = count + 1, size + OPS.size_of(j)
      call('DEL', key)
    end
    each[k] = j and 1 or 0
  end
  answer(0)
  OPS.answer_text(concat(each))
  return count, size
end

-- delete-grouped: deletes jobs with groups of a tube that connections of this instance hold
--
-- ARGV    'delete-grouped', tube, known, size, n, ids…, groups…
--           known, size  as delete-held
-- Keys    as delete-held, and those of the lanes
-- Answer  as delete-held
--
-- As by delete-held the records are not read. So it can be used only for jobs that have no other
-- metadata than a group.
OPS['delete-grouped'] = function(i)
  local t, n, size, names = open(ARGV[i]), tonumber(ARGV[i + 3]), ARGV[i + 2], {}
  local first, groups = i + 4, { unpack(ARGV, i + 4 + n, i + 3 + 2 * n) }
  local all = call('ZREM', RESERVED, unpack(ARGV, first, first + n - 1)) == n
  read_lanes(t, groups)
  for k, group in ipairs(groups) do
    local lane = t.lane[group]
    names[k], lane.reserved = reserved_name(group, sub(ARGV[first + k - 1], #PREFIX + 1)), false
    if lane.first then dirty(t, lane) end
  end
  call('ZREM', t.reserved, unpack(names))
  if all then
    call('DEL', unpack(ARGV, first, first + n - 1))
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
