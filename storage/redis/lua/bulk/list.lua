-- Lists of jobs of a tube in a state.

-- answer_listed answers with a job that was found: its id, its score there, the size of its
-- body, and the answer of job-stats.
local function answer_listed(j, state, score, leased)
  j.state, j.leased = state, leased
  answer(sub(j.key, #PREFIX + 1))
  answer_text(score)
  answer(size_of(j))
  local left = 0
  if state == 'delayed' then left = delayed_left(j, score) end
  if state == 'reserved' then left = time_left(tonumber(score)) end
  answer_located(j, left)
end

-- list: lists some jobs of a tube that are ready, delayed or buried, in their order
--
-- ARGV    'list', tube, state, limit, score, key
--           limit       how many jobs at most
--           score, key  position after which they are
-- Keys    reads ready:, delayed: or buried:TUBE, the records, policies
-- Answer  1 if these are all, else 0; score and key of the last one; how many, and for each the
--         answer of answer_listed
OPERATIONS['list'] = function(i)
  local tube, state, limit = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local w, found, scores = { score = ARGV[i + 3], key = ARGV[i + 4] }, {}, {}
  local members, last = queue_behind(tube, state, w, limit)
  local at, all = 1, true
  while members[at] and all do
    for _, key in ipairs(keys_of(members[at], partitions)) do
      all = #found < limit
      if not all then break end
      if is_behind(w, members[at + 1], key) then
        w.score, w.key = members[at + 1], key
        local j = load(key)
        if j then found[#found + 1], scores[#scores + 1] = j, w.score end
      end
    end
    at = at + 2
  end
  answer(all and last and 1 or 0)
  answer_text(w.score)
  answer_text(w.key)
  answer(#found)
  for k, j in ipairs(found) do answer_listed(j, state, scores[k], false) end
  return i + 5
end

-- list-reserved: lists some reserved jobs of a tube, in the order of their holders
--
-- ARGV    'list-reserved', tube, limit, most, begin_score, begin_key, holder, had, score, key
--           limit             about how many jobs at most
--           most              as many of each holder are enough
--           begin_…           position after which jobs of each holder are listed
--           holder, had, …    where to continue, and how many jobs of this holder were found. In
--                             the first part '', 0, and as begin
-- Keys    reads reserved: of all instances, leases, instances, the records, policies
-- Answer  1 if these are all, else 0; holder, had, score and key for the next part; how many,
--         and for each the answer of answer_listed
OPERATIONS['list-reserved'] = function(i)
  local begin = { score = ARGV[i + 3], key = ARGV[i + 4] }
  local w = { holder = ARGV[i + 5], had = tonumber(ARGV[i + 6]), score = ARGV[i + 7], key = ARGV[i + 8], begin = begin }
  local jobs = {}
  for _, entry in ipairs(next_reserved(ARGV[i], w, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))) do
    for _, key in ipairs(entry[4]) do
      if is_behind(begin, entry[2], key) then jobs[#jobs + 1] = { load(key), entry[2], entry[3] == '' } end
    end
  end
  answer(w.holder and 0 or 1)
  answer_text(w.holder or '')
  answer(w.had)
  answer_text(w.score)
  answer_text(w.key)
  answer(#jobs)
  for _, job in ipairs(jobs) do answer_listed(job[1], 'reserved', job[2], job[3]) end
  return i + 9
end
