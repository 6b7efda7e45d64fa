-- Jobs of another server: see storage.Importer.

-- import_of returns the offset that is added to the original numbers of the jobs of an import,
-- and how many of its jobs are here; nil if it has not begun.
local function import_of(source)
  local offset, done = string.match(call('HGET', PREFIX .. 'imports', source) or '', '^(%d+) (%d+)$')
  return tonumber(offset), tonumber(done)
end

local function note_import(source, offset, done)
  call('HSET', PREFIX .. 'imports', source, format('%.0f %.0f', offset, done))
  sum.changed = true
end

-- begin-import: reserves numbers for the jobs of an import, unless it has begun before
--
-- ARGV    'begin-import', source, least, largest
--           least    their numbers are above this one
--           largest  how many numbers are reserved; 0: none, and nothing begins
-- Keys    reads and writes imports and counts
-- Answer  the offset for the numbers of its jobs, present or future; how many of them are here; and
--         the last number that was given to a job
OPERATIONS['begin-import'] = function(i)
  local source, least, largest = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local ids, offset, done = tonumber(call('HGET', COUNTS, 'ids') or 0), import_of(source)
  if not offset then
    offset, done = math.max(ids, least), 0
    if largest > 0 then
      count_up(COUNTS, 'skipped', offset + largest - ids)
      ids = count_up(COUNTS, 'ids', offset + largest - ids)
      sum.more_numbers = true
      note_import(source, offset, done)
    end
  end
  answer(offset)
  answer(done)
  answer(ids)
  return i + 3
end

-- write_imported writes the records of jobs: `plain` of them are in ARGV with their keys from i
-- on, followed by the keys of the staged ones.
local function write_imported(i, plain, staged)
  if plain > 0 then call('MSET', unpack(ARGV, i, i + 2 * plain - 1)) end
  for k = i + 2 * plain, i + 2 * plain + staged - 1 do
    adopted = adopted + 1
    call('RENAME', STAGED .. adopted, ARGV[k])
    call('PERSIST', ARGV[k])
  end
end

-- number_burials sets the scores of n buried jobs, whose scores and keys begin at i.
local function number_burials(i, n)
  local burial = count_up(COUNTS, 'burials', n) - n
  for k = i, i + 2 * (n - 1), 2 do
    burial = burial + 1
    ARGV[k] = format('%.0f', burial)
  end
end

-- note_first sets the timer of a tube to when the first of its new delayed jobs is due, if that
-- is earlier.
local function note_first(tube, first)
  local timer = call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
  if not timer or tonumber(timer) > first then call('ZADD', PREFIX .. 'timers', format('%.0f', first), 'd:' .. tube) end
  note_due(first)
end

-- fill_imported puts the n jobs of a tube in one state into their queue, and counts them. It
-- returns the index after them.
local function fill_imported(i, seen)
  local tube, state, n, more = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 4]
  totals[tube], bytes[tube] = (totals[tube] or 0) + n, (bytes[tube] or 0) + ARGV[i + 3]
  if not seen[tube] then SLOW.put_in(tube) end
  seen[tube] = true
  if state == 'ready' then
    sum.urgent = sum.urgent + more
    wakeups[tube] = (wakeups[tube] or 0) + n
  else
    sum[state] = sum[state] + n
  end
  if state == 'buried' then number_burials(i + 5, n) end
  if state == 'ready' and limited then SLOW.groups().plain_ready(tube) end
  add_all(PREFIX .. state .. ':' .. tube, ARGV, i + 5, i + 4 + 2 * n)
  if state == 'delayed' then note_first(tube, tonumber(more)) end
  return i + 5 + 2 * n
end

-- import: adds the next jobs of an import
--
-- ARGV    'import', source, from, n, plain, staged, for each plain job its key and record, for each
--         staged one its key, queues, and for each queue tube, state, jobs, size, more, and for
--         each of its jobs score and key
--           from    how many jobs precede them; if this differs from how many are here nothing is done
--           n       how many they are: plain ones, whose records are given, and staged ones
--           queues  how many queues follow, each the jobs of a tube in one state
--           state   'ready', 'delayed' or 'buried'
--           jobs    how many are in it
--           size    of their bodies together, bytes
--           more    of ready ones how many are urgent; of delayed ones when the first is due
--           score   the priority; of delayed ones the due time; of buried ones ''
-- Keys    writes the records, ready:, delayed: and buried:TUBE, timers, tube:TUBE, counts, imports
-- Answer  how many are here now
OPERATIONS['import'] = function(i)
  local source, from, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local plain, staged, seen = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), {}
  local offset, done = import_of(source)
  local fits = done == from
  if fits then
    done = done + n
    note_import(source, offset, done)
    write_imported(i + 5, plain, staged)
    count_up(COUNTS, 'skipped', -n)
  else
    adopted = adopted + staged -- they expire
  end
  local at = i + 6 + 2 * plain + staged
  for _ = 1, tonumber(ARGV[at - 1]) do
    at = fits and fill_imported(at, seen) or at + 5 + 2 * ARGV[at + 2]
  end
  answer(done or 0)
  return at
end
