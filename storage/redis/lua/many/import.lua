-- Jobs of another server: see storage.Importer.

-- import_of returns what is added to the numbers of the jobs of an import, and how many of them
-- are here; nil if it was not begun.
local function import_of(source)
  local offset, done = string.match(call('HGET', PREFIX .. 'imports', source) or '', '^(%d+) (%d+)$')
  return tonumber(offset), tonumber(done)
end

local function note_import(source, offset, done)
  call('HSET', PREFIX .. 'imports', source, format('%.0f %.0f', offset, done))
  sum.changed = true
end

-- begin-import: numbers are set aside for the jobs of an import, unless it was begun before
--
-- ARGV    'begin-import', source, least, largest
--           least    their numbers are above this one
--           largest  how many numbers are set aside; 0: none, and nothing is begun
-- Keys    reads and writes imports and counts
-- Answer  what is added to the numbers of its jobs, or would be; how many of them are here; and the
--         last number that was given to a job
OPS['begin-import'] = function(i)
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

-- write_record writes the record of a job, or has a staged one be it. words gets what is to be
-- written at once.
local function write_record(words, key, record)
  if record ~= '' then
    words[#words + 1], words[#words + 2] = key, record
    return
  end
  adopted = adopted + 1
  call('RENAME', STAGED .. adopted, key)
  call('PERSIST', key)
end

-- place_imported notes in queues where a job goes, and counts it. firsts gets the scores of the
-- first delayed jobs of tubes. score is, of a buried job, the number of its burial.
local function place_imported(queues, firsts, tube, state, score, key)
  if state == 'ready' then
    if tonumber(score) < URGENT_BELOW then sum.urgent = sum.urgent + 1 end
    become_ready[tube] = (become_ready[tube] or 0) + 1
  else
    sum[state] = sum[state] + 1
    if state == 'delayed' then firsts[tube] = math.min(firsts[tube] or math.huge, tonumber(score)) end
  end
  local name = PREFIX .. state .. ':' .. tube
  local entries = queues[name] or {}
  entries[#entries + 1], entries[#entries + 2], queues[name] = score, key, entries
end

-- first_burial takes numbers for the burials of those of n jobs that are buried, and returns the one
-- before the first.
local function first_burial(i, n)
  local burials = 0
  for k = i + 1, i + 1 + 6 * (n - 1), 6 do
    if ARGV[k] == 'buried' then burials = burials + 1 end
  end
  return burials > 0 and count_up(COUNTS, 'burials', burials) - burials or 0
end

-- import_jobs makes n jobs, whose arguments begin at i.
local function import_jobs(i, n)
  local words, queues, firsts, seen, burial = {}, {}, {}, {}, first_burial(i, n)
  for k = i, i + 6 * (n - 1), 6 do
    local tube, score = ARGV[k], ARGV[k + 2]
    if ARGV[k + 1] == 'buried' then
      burial = burial + 1
      score = format('%.0f', burial)
    end
    write_record(words, ARGV[k + 3], ARGV[k + 5])
    place_imported(queues, firsts, tube, ARGV[k + 1], score, ARGV[k + 3])
    totals[tube], bytes[tube] = (totals[tube] or 0) + 1, (bytes[tube] or 0) + ARGV[k + 4]
    if not seen[tube] then OPS.put_in(tube) end
    seen[tube] = true
  end
  if words[1] then call('MSET', unpack(words)) end
  for name, entries in pairs(queues) do add_all(name, entries) end
  for tube, first in pairs(firsts) do
    local timer = call('ZSCORE', PREFIX .. 'timers', 'd:' .. tube)
    if not timer or tonumber(timer) > first then call('ZADD', PREFIX .. 'timers', format('%.0f', first), 'd:' .. tube) end
    note_due(first)
  end
  count_up(COUNTS, 'skipped', -n)
end

-- import: the next jobs of an import
--
-- ARGV    'import', source, from, n, and of each job tube, state, score, id, size, record
--           from   how many come before them; if that is not how many are here nothing is done
--           n      how many they are
--           state  'ready', 'delayed' or 'buried'
--           score  the priority; of delayed ones when they are due
--           size   of the body, bytes
-- Keys    writes the records, ready:, delayed: and buried:TUBE, timers, tube:TUBE, counts, imports
-- Answer  how many are here now
OPS['import'] = function(i)
  local source, from, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local offset, done = import_of(source)
  if done == from then
    done = done + n
    note_import(source, offset, done)
    import_jobs(i + 3, n)
  else
    for k = i + 8, i + 8 + 6 * (n - 1), 6 do
      if ARGV[k] == '' then adopted = adopted + 1 end -- it expires
    end
  end
  answer(done or 0)
  return i + 3 + 6 * n
end
