-- The one script of the engine: it carries out a batch of operations in their
-- order. This file and the others in this directory are joined in the order of
-- their names, behind the table of arrows, which the engine writes from
-- tube.Arrows:
--
--   ARROWS  move .. state letter → held flag, new state letter, counter digit;
--           'deleteV' = 'h--': only by the holder, gone, no counter
--
-- KEYS[1]  prefix of every key of the partition, such as 'redstalk:{0}:'.
--          All other keys begin with it and so live in the same slot.
-- ARGV[1]  name of this instance, 8 characters
-- ARGV[2]  milliseconds to add to the clock (0 but in tests)
-- ARGV[3]  how many jobs the batch puts
-- ARGV[4]  partitions in all, [5] number of this one
-- ARGV[6…] the operations, each a word and its arguments, as OPS says
--
-- Reply: { answers, earliest, hints }
--   answers   of all operations in a row, each as OPS says
--   earliest  microseconds until the first thing that this batch made due, -1 if none
--   hints     names of tubes in which somebody at this instance may take a job
--
-- Keys, behind the prefix:
--   job:ID          string: header (20_record.lua), name of the tube, body
--   ready:TUBE      ZSET of ids by priority
--   delayed:TUBE    ZSET of ids by due time
--   buried:TUBE     ZSET of ids by the number of the burial. Not a list: to
--                   take one job out of a long list means to scan it
--   reserved:INST   ZSET of ids by TTR deadline
--   tube:TUBE       hash: total, deletes, pauses
--   tubes           ZSET of the names of all tubes, in the order of list-tubes
--   paused          hash of paused tubes: 'seconds until'
--   timers          ZSET by time: 'd:TUBE' first delayed job (or earlier),
--                   'p:TUBE' end of the pause
--   attending:TUBE  hash of instances: 'using watching waiting'
--   waiting:TUBE    ZSET of instances where somebody waits for a job, by time
--   mail:INST       list of tubes: what instances tell each other
--   instances       ZSET of instances by their last sign of life
--   counts          hash: ids, burials, opened (numbers given out);
--                   ready, urgent, delayed, buried, total, deleted, timeouts
--
-- ID in keys and members is the decimal number with 16 digits, so that equal
-- scores come out in the order of ids. Times are ms since the epoch.

local PREFIX, ME = KEYS[1], ARGV[1]
local call, pack, unpack_, format = redis.call, struct.pack, struct.unpack, string.format

-- NOW is for asking whether something is due, NOW_UP for saying when it will
-- be: rounded so that nothing is ever early.
local clock = call('TIME')
local MS = tonumber(clock[1]) * 1000 + tonumber(clock[2]) / 1000 + tonumber(ARGV[2])
local NOW, NOW_UP = math.floor(MS), math.ceil(MS)

local answers, answered = {}, 0
local function answer(value)
  answered = answered + 1
  answers[answered] = value
end

-- What the batch changes in the counters, written at its end.
local counts = { ready = 0, urgent = 0, delayed = 0, buried = 0, total = 0, deleted = 0, timeouts = 0 }
local totals, deletes, pauses = {}, {}, {} -- by tube
local put_into = {} -- the tubes in totals, in the order of the first put
local deletion, deleted_at = 0, {} -- number of the last delete, in all and by tube
local function count(per_tube, tube)
  per_tube[tube] = (per_tube[tube] or 0) + 1
end

-- How many jobs became ready in a tube, and what is due first.
local roused = {}
local earliest = math.huge
local function due_at(at)
  if at < earliest then earliest = at end
end

local function number(name)
  return call('HINCRBY', PREFIX .. 'counts', name, 1)
end

-- Paused tubes are looked up once in a batch, when first asked for.
local paused
local function is_paused(tube)
  if not paused then
    paused = {}
    for _, name in ipairs(call('HKEYS', PREFIX .. 'paused')) do paused[name] = true end
  end
  return paused[tube]
end

local function member_of(id)
  return format('%016.0f', id)
end
