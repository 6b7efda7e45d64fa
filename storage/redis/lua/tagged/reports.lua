-- What the holders of a job report: its checkpoint, from which the next delivery goes on, and its progress, which people read. They are in
-- keys of their own, so that jobs without them cost nothing, and nobody reads a large checkpoint but who wants it. f.reports says that a
-- job has one of them.
--
-- A progress is gone when the job is reserved again. No take looks for that: progress:ID is 'RESERVES TEXT', with what
-- the counter of reservations is when the delivery that has said it ends.

local function keys_of_reports(key)
  local id = sub(key, #PREFIX + 1)
  return PREFIX .. 'checkpoint:' .. id, PREFIX .. 'progress:' .. id
end

-- has_reports returns whether a job has a checkpoint or a progress.
local function has_reports(j)
  local f = metadata_of(j)
  return f ~= nil and f.reports
end

-- delivery_of returns what the counter of reservations is when the present delivery of a job ends, or has ended.
local function delivery_of(j)
  return (j.reserves + (j.state == 'reserved' and not j.is_counted and 1 or 0)) % 4294967296
end

-- checkpoint_size returns the size of the checkpoint of a job in bytes, 0 if it has none.
function SLOW.checkpoint_size(j)
  return has_reports(j) and call('STRLEN', (keys_of_reports(j.key))) or 0
end

-- progress_of returns the progress of a job, '' if it has none.
function SLOW.progress_of(j)
  local said = has_reports(j) and call('GET', (select(2, keys_of_reports(j.key)))) or ''
  local delivery, text = string.match(said, '^(%d+) (.*)$')
  return tonumber(delivery) == delivery_of(j) and text or ''
end

-- write sets a key, or deletes it if its value is to be ''.
local function write(key, value)
  if value == '' then call('DEL', key) else call('SET', key, value) end
end

-- report replaces what is set of said.progress and said.checkpoint, '' for none. The header of the job is written later.
function SLOW.report(j, said)
  local checkpoint, progress = keys_of_reports(j.key)
  local says = (said.checkpoint or '') ~= '' or (said.progress or '') ~= ''
  local had = has_reports(j)
  if not says and not had then return end
  if said.checkpoint then
    bytes[j.tube] = (bytes[j.tube] or 0) + #said.checkpoint - (had and call('STRLEN', checkpoint) or 0)
    write(checkpoint, said.checkpoint)
  end
  if said.progress then write(progress, said.progress ~= '' and format('%.0f ', delivery_of(j)) .. said.progress or '') end
  local has = says or call('EXISTS', checkpoint, progress) > 0
  if has == had then return end
  change_metadata(j).reports = has
  save_metadata(j)
end

-- keep_progress is called when a delivery of a job ends that does not count.
function SLOW.keep_progress(j)
  if not has_reports(j) then return end
  local text = SLOW.progress_of(j)
  j.is_counted = true
  SLOW.report(j, { progress = text })
end

-- forget_reports is called for a job that is about to be deleted.
function SLOW.forget_reports(j)
  if not has_reports(j) then return end
  bytes[j.tube] = (bytes[j.tube] or 0) - SLOW.checkpoint_size(j)
  call('DEL', keys_of_reports(j.key))
end

-- hand_over_reports gives what the holders of a job have reported to the job `new`, which is made of it in a tube, and whose counters begin at
-- zero. f.reports says then what that has.
function SLOW.hand_over_reports(j, new, to)
  local checkpoint, progress = keys_of_reports(j.key)
  local new_checkpoint, new_progress = keys_of_reports(new)
  local size, text = SLOW.checkpoint_size(j), SLOW.progress_of(j)
  if size > 0 then call('SET', new_checkpoint, call('GET', checkpoint)) end -- RENAME can be forbidden
  call('DEL', checkpoint, progress)
  if text ~= '' then call('SET', new_progress, '0 ' .. text) end
  bytes[j.tube], bytes[to] = (bytes[j.tube] or 0) - size, (bytes[to] or 0) + size
  j.metadata.reports = size > 0 or text ~= ''
end

-- reporting: carries out the next operation, a move along an arrow that leaves the job with its holder, who reports something
--
-- ARGV    'reporting', text, what, 'reporting', 'move', 'move-leased' or 'because', and the arguments of that
--           text  '' for none
--           what  it is, 'progress' or 'checkpoint'
-- Keys    as that; writes the record, checkpoint:ID, progress:ID, tube:TUBE
-- Answer  as that
OPERATIONS['reporting'] = function(i)
  sum.reports = sum.reports or {}
  sum.reports[ARGV[i + 1]] = ARGV[i]
  local last = OPERATIONS[ARGV[i + 2]](i + 3)
  sum.reports = nil
  return last
end

-- keep-checkpoint: carries out the next operation, which leaves the jobs their checkpoints that it would take from them
--
-- ARGV    'keep-checkpoint', 'move', 'kick' or 'replay', and the arguments of that
-- Keys    as that
-- Answer  as that
OPERATIONS['keep-checkpoint'] = function(i)
  sum.keeps_checkpoint = true
  local last = OPERATIONS[ARGV[i]](i + 1)
  sum.keeps_checkpoint = nil
  return last
end

-- get-reports: returns what the holders of a job have reported that is on its way to another tube
--
-- ARGV    'get-reports', id
-- Keys    reads the record, checkpoint:ID, progress:ID
-- Answer  progress and checkpoint, '' for none
OPERATIONS['get-reports'] = function(i)
  local j = load(ARGV[i])
  answer_text(j and SLOW.progress_of(j) or '')
  answer_text(j and SLOW.checkpoint_size(j) > 0 and call('GET', (keys_of_reports(j.key))) or '')
  return i + 1
end
