-- What the holders of a job report: its checkpoint, from which the next delivery goes on, and its progress, which people read. They are in
-- keys of their own, so that jobs without them cost nothing, and nobody reads a large checkpoint but who wants it. The metadata of a
-- job says whether it has one of them, see SLOW.has_reports. Only then the functions here are needed.
--
-- A progress is gone when the job is reserved again. No take looks for that: progress:ID is 'RESERVES TEXT', with what
-- the counter of reservations is when the delivery that has said it ends.

local function keys_of_reports(key)
  local id = sub(key, #PREFIX + 1)
  return PREFIX .. 'checkpoint:' .. id, PREFIX .. 'progress:' .. id
end

-- delivery_of returns what the counter of reservations is when the present delivery of a job ends, or has ended.
local function delivery_of(j)
  return (j.reserves + (j.state == 'reserved' and not j.is_counted and 1 or 0)) % 4294967296
end

-- checkpoint_size returns the size of the checkpoint of a job in bytes, 0 if it has none.
function SLOW.checkpoint_size(j)
  return call('STRLEN', (keys_of_reports(j.key)))
end

-- progress_of returns the progress of a job, '' if it has none.
function SLOW.progress_of(j)
  local _, key = keys_of_reports(j.key)
  local delivery, text = string.match(call('GET', key) or '', '^(%d+) (.*)$')
  return tonumber(delivery) == delivery_of(j) and text or ''
end

-- write sets a key, or deletes it if its value is to be ''.
local function write(key, value)
  if value == '' then call('DEL', key) else call('SET', key, value) end
end

-- adopt makes the next staged record a checkpoint, and returns its size in bytes.
local function adopt(key)
  adopted = adopted + 1
  call('RENAME', STAGED .. adopted, key)
  call('PERSIST', key)
  return call('STRLEN', key)
end

-- count_checkpoint counts that a checkpoint of a job in a tube has got another size in bytes, 0 for none.
local function count_checkpoint(tube, before, size)
  bytes[tube] = (bytes[tube] or 0) + size - before
  sum['checkpoint-bytes'] = sum['checkpoint-bytes'] + size - before
  sum.checkpoints = sum.checkpoints + (size > 0 and 1 or 0) - (before > 0 and 1 or 0)
end

-- report replaces what is set of said.progress and said.checkpoint, '' for none; said.staged says that it is the next staged
-- record. The header of the job is written later.
function SLOW.report(j, said)
  local checkpoint, progress = keys_of_reports(j.key)
  local says = said.staged or (said.checkpoint or '') ~= '' or (said.progress or '') ~= ''
  local had = SLOW.has_reports(j)
  if not says and not had then return end
  if said.checkpoint then
    local before, size = had and call('STRLEN', checkpoint) or 0, #said.checkpoint
    if said.staged then size, said.staged = adopt(checkpoint), nil else write(checkpoint, said.checkpoint) end
    count_checkpoint(j.tube, before, size)
    if size ~= before then count_up(PREFIX .. 'tube:' .. j.tube, 'resized', 1) end -- for fsck beside instances
  end
  if said.progress then write(progress, said.progress ~= '' and format('%.0f ', delivery_of(j)) .. said.progress or '') end
  local has = says or call('EXISTS', checkpoint, progress) > 0
  if has == had then return end
  SLOW.change_metadata(j).reports = has
  SLOW.save_metadata(j)
end

-- keep_progress is called when a delivery of a job ends that does not count.
function SLOW.keep_progress(j)
  local text = SLOW.progress_of(j)
  j.is_counted = true
  SLOW.report(j, { progress = text })
end

-- forget_reports is called for a job that is about to be deleted.
function SLOW.forget_reports(j)
  count_checkpoint(j.tube, SLOW.checkpoint_size(j), 0)
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
--           what  it is, 'progress' or 'checkpoint'; 'staged' for a checkpoint that is the next staged record: then text is ''
-- Keys    as that; writes the record, checkpoint:ID, progress:ID, tube:TUBE
-- Answer  as that
OPERATIONS['reporting'] = function(i)
  local said, what = sum.reports or {}, ARGV[i + 1]
  if what == 'staged' then what, said.staged = 'checkpoint', true end
  sum.reports, said[what] = said, ARGV[i]
  local last = OPERATIONS[ARGV[i + 2]](i + 3)
  sum.reports = nil
  if said.staged then -- the move was not possible
    adopted, said.staged = adopted + 1, nil
    call('DEL', STAGED .. adopted)
  end
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

-- get-progress: returns the progress of a job that is on its way to another tube. The instance reads its checkpoint by itself
--
-- ARGV    'get-progress', id
-- Keys    reads the record, progress:ID
-- Answer  it, '' for none
OPERATIONS['get-progress'] = function(i)
  local j = load(ARGV[i])
  answer_text(j and SLOW.progress_of(j) or '')
  return i + 1
end
