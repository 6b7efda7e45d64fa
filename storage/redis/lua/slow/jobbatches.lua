-- What the other files here need of jobbatches/, which is defined when it is needed. A batch, here, is
-- one of jobs, see tube.JobBatch: its members, and its after-jobs, which wait for it.

local define_job_batches
local JOB_BATCHES -- what that has returned
local any_job_batch -- whether there is any; nil before that was looked up

-- job_batches returns the functions of jobbatches/.
function SLOW.job_batches()
  JOB_BATCHES = JOB_BATCHES or define_job_batches()
  return JOB_BATCHES
end

-- job_batches_of returns them if a job is a member or an after-job; else nil. Its metadata was read
-- then.
function SLOW.job_batches_of(j)
  if not j.has_metadata then return nil end
  if any_job_batch == nil then any_job_batch = call('EXISTS', PREFIX .. 'job-batches') == 1 end
  local f = (any_job_batch or JOB_BATCHES) and SLOW.metadata_of(j)
  return f and (f.batch or f.after) and SLOW.job_batches() or nil
end

-- left_batch is called when a job has left the place of its state, or is about to. j.was is then what the
-- job counts as in its batch.
function SLOW.left_batch(j)
  local batches = SLOW.job_batches_of(j)
  if batches then batches.left(j) end
end

-- entered_batch is called when such a job has another state.
function SLOW.entered_batch(j)
  local batches = SLOW.job_batches_of(j)
  if batches then batches.entered(j) end
end

-- ended_batch is called before the record of such a job is deleted. j.ends says how it ends: 'done',
-- 'moved' if another job has taken its place, 'replaced', 'withdrawn', or nil if it is gone.
function SLOW.ended_batch(j)
  local batches = SLOW.job_batches_of(j)
  if batches then batches.ended(j) end
end
