-- The record of a job: a header of fixed width, the tube, the body. Only the
-- header ever changes, in place.
--
--   state c1   D delayed, B buried, R ready or reserved
--   ttr I4, pri I4, delay I4, created I8
--   reserves I4, timeouts I4, releases I4, buries I4, kicks I4
--   length of the name B
--
-- Reserving a job and deleting it do not touch its record, which makes the
-- usual life of a job cheap. So R leaves open which of the two it is: the ZSETs
-- know. And the reservation that a job is in is not among reserves yet; it is
-- added when the job leaves it.

local HEADER = '>c1I4I4I4I8I4I4I4I4I4'
local NAME_AT = 43 -- where the name of the tube begins, behind its length
local MOST = 241   -- last byte (from 0) of the longest header and name

-- Digits of ARROWS name counters by their place here.
local COUNTERS = { 'reserves', 'timeouts', 'releases', 'buries', 'kicks' }

local function parse(member, raw)
  local j, len = { member = member, raw = raw }, nil
  j.state, j.ttr, j.pri, j.delay, j.created,
    j.reserves, j.timeouts, j.releases, j.buries, j.kicks, len = struct.unpack(HEADER .. 'B', raw)
  j.tube = sub(raw, NAME_AT, NAME_AT - 1 + len)
  return j
end

-- load reads a job without its body; nil if there is none.
local function load(member)
  local raw = call('GETRANGE', member, '0', format('%d', MOST))
  if raw == '' then return nil end
  return parse(member, raw)
end

local function load_whole(member)
  local raw = call('GET', member)
  if not raw then return nil end
  return parse(member, raw)
end

local function save(j)
  local letter = j.state == 'V' and 'R' or j.state
  call('SETRANGE', j.member, '0', struct.pack(HEADER, letter, j.ttr, j.pri, j.delay, j.created,
    j.reserves, j.timeouts, j.releases, j.buries, j.kicks))
end

-- answer_job answers with the id and the record of a job that was loaded whole.
local function answer_job(j)
  carried = carried + #j.raw
  answer(tonumber(sub(j.member, -16)))
  answer_text(j.raw)
end

-- fits returns whether the reply may bring the record of a job. The first always
-- may.
local function fits(member)
  return carried == 0 or carried + call('STRLEN', member) <= BUDGET
end

-- how_many_fit returns of how many of the jobs that first_ready has found the reply
-- may bring the records.
local function how_many_fit(f)
  local k, bytes = 0, carried
  for i, n in ipairs(f.sizes) do
    for at = k + 1, f.own[i] and k or k + n do
      bytes = bytes + call('STRLEN', f.keys[at])
      if bytes > BUDGET and (at > 1 or carried > 0) then return at - 1 end
    end
    k = k + n
  end
  return k
end

-- fit leaves of what first_ready has found as much as fits, and returns whether
-- that is less.
function OPS.fit(tube, f)
  local k = how_many_fit(f)
  if k == f.found then return f, false end
  if k == 0 then return { found = 0 }, true end
  return first_ready(tube, k), true
end
