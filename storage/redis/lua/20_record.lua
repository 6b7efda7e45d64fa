-- The record of a job: a header of fixed width, the tube, the body. Only the
-- header ever changes, in place.
--
--   state c1   R ready, V reserved, D delayed, B buried
--   due I8     delayed and reserved: when
--   inst c8, holder I8   reserved: by which connection of which instance
--   reserves I4, ttr I4, pri I4, delay I4, created I8
--   timeouts I4, releases I4, buries I4, kicks I4, length of the name B

local HEADER = '>c1I8c8I8I4I4I4I4I8I4I4I4I4'
local NOBODY = '--------'
local NAME_AT = 67 -- where the name of the tube begins, behind its length
local MOST = 264   -- last byte (from 0) of the longest header and name

-- Digits of ARROWS name counters by their place here.
local COUNTERS = { 'reserves', 'timeouts', 'releases', 'buries', 'kicks' }

local function parse(member, raw)
  local j, len = { member = member, raw = raw }, nil
  j.state, j.due, j.inst, j.holder, j.reserves, j.ttr, j.pri, j.delay, j.created,
    j.timeouts, j.releases, j.buries, j.kicks, len = unpack_(HEADER .. 'B', raw)
  j.tube = string.sub(raw, NAME_AT, NAME_AT - 1 + len)
  return j
end

-- load reads a job without its body; nil if there is none.
local function load(member)
  local raw = call('GETRANGE', PREFIX .. 'job:' .. member, 0, MOST)
  if raw == '' then return nil end
  return parse(member, raw)
end

local function load_whole(member)
  local raw = call('GET', PREFIX .. 'job:' .. member)
  if not raw then return nil end
  return parse(member, raw)
end

local function header_of(j)
  return pack(HEADER, j.state, j.due, j.inst, j.holder, j.reserves, j.ttr, j.pri, j.delay,
    j.created, j.timeouts, j.releases, j.buries, j.kicks)
end

local function save(j)
  call('SETRANGE', PREFIX .. 'job:' .. j.member, 0, header_of(j))
end

-- answer_job answers with id and body of a job that was loaded whole.
local function answer_job(j)
  answer(tonumber(j.member))
  answer(string.sub(j.raw, NAME_AT + #j.tube))
end
