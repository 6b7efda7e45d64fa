-- Lists of jobs of a tube in a state.

-- answer_listed answers with a job that was found, which has a score there: its id, the score,
-- the size of its body, and what job-stats answers.
local function answer_listed(j, state, score, leased)
  j.state, j.leased = state, leased
  answer(sub(j.key, #PREFIX + 1))
  answer_text(score)
  answer(size_of(j))
  answer_located(j, (state == 'reserved' or state == 'delayed') and time_left(tonumber(score)) or 0)
end

-- list: some jobs of a tube that are ready, delayed or buried, in their order
--
-- ARGV    'list', tube, state, limit, score, key
--           limit       how many jobs at most
--           score, key  place behind which they are
-- Keys    reads ready:, delayed: or buried:TUBE, the records, policies
-- Answer  1 if these are all, else 0; score and key of the last one; how many, and of each what
--         answer_listed says
OPS['list'] = function(i)
  local tube, state, limit = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local w, found, scores = { score = ARGV[i + 3], key = ARGV[i + 4] }, {}, {}
  local members, at, all = members_behind(PREFIX .. state .. ':' .. tube, w, limit), 1, true
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
  answer(all and #members < 2 * limit and 1 or 0)
  answer_text(w.score)
  answer_text(w.key)
  answer(#found)
  for k, j in ipairs(found) do answer_listed(j, state, scores[k], false) end
  return i + 5
end

-- list-reserved: some reserved jobs of a tube, in the order of their holders
--
-- ARGV    'list-reserved', tube, limit, most, begin_score, begin_key, holder, had, score, key
--           limit             how many jobs at most, about
--           most              as many of each holder are enough
--           begin_…           place behind which jobs are looked for, of each holder
--           holder, had, …    where to go on, and how many of this holder were found: at first
--                             '', 0, and as begin
-- Keys    reads reserved: of all instances, leases, instances, the records, policies
-- Answer  1 if these are all, else 0; holder, had, score and key for the next part; how many,
--         and of each what answer_listed says
OPS['list-reserved'] = function(i)
  local begin = { score = ARGV[i + 3], key = ARGV[i + 4] }
  local w = { holder = ARGV[i + 5], had = tonumber(ARGV[i + 6]), score = ARGV[i + 7], key = ARGV[i + 8], begin = begin }
  local jobs = {}
  for _, its in ipairs(next_reserved(ARGV[i], w, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))) do
    for _, key in ipairs(its[4]) do
      if is_behind(begin, its[2], key) then jobs[#jobs + 1] = { load(key), its[2], its[3] == '' } end
    end
  end
  answer(w.holder and 0 or 1)
  answer_text(w.holder or '')
  answer(w.had)
  answer_text(w.score)
  answer_text(w.key)
  answer(#jobs)
  for _, its in ipairs(jobs) do answer_listed(its[1], 'reserved', its[2], its[3]) end
  return i + 9
end
