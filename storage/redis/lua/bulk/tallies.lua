-- Tallies: what happened in tubes in an hour or a day, see package tube. All of them are in the first partition.

--include data: tallies

local TALLIES = PREFIX .. 'tallies'

-- tallies_of returns the key of the tallies of a period, by its number.
local function tallies_of(period, number)
  return format('%s:%s:%.0f', TALLIES, period.name, number)
end

-- add_tally returns the sum of two tallies, of which there may be no first one.
local function add_tally(old, new)
  if not old then return new end
  local sums, olds = {}, string.gmatch(old, '%d+')
  for n in string.gmatch(new, '%d+') do sums[#sums + 1] = format('%.0f', n + (olds() or 0)) end
  return concat(sums, ' ')
end

-- drop_least_busy is tube.LeastBusy, and drops them.
local function drop_least_busy(key)
  if call('HLEN', key) <= TRIM_TALLIED then return end
  local all, names, busy = call('HGETALL', key), {}, {}
  for k = 1, #all, 2 do
    if all[k] ~= '' then
      local puts, started, done = string.match(all[k + 1], '^(%d+) (%d+) (%d+)')
      names[#names + 1], busy[all[k]] = all[k], puts + started + done
    end
  end
  table.sort(names, function(a, b)
    return busy[a] > busy[b] or busy[a] == busy[b] and a < b
  end)
  call('HDEL', key, unpack(names, MAX_TALLIED + 1))
end

-- add_in adds the tallies that are in ARGV from i on, each behind its tube, to those of the present hour or day.
local function add_in(period, names, i)
  local number = math.floor(NOW / period.ms)
  local key, row = tallies_of(period, number), {}
  if call('EXISTS', key) == 0 then call('ZADD', TALLIES, format('%.0f', (number + period.kept) * period.ms), key) end
  for k, old in ipairs(call('HMGET', key, unpack(names))) do
    row[2 * k - 1], row[2 * k] = names[k], add_tally(old, ARGV[i + 2 * k - 1])
  end
  call('HSET', key, unpack(row))
  drop_least_busy(key)
end

-- add-tallies: adds to the tallies of the present hour and day, once, and drops old ones
--
-- ARGV    'add-tallies', from, number, n, and for n tubes its name, '' for all together, and its tally
--           from    who adds
--           number  of the operation among those of from, which grows
-- Keys    writes tallies, tallies:…, tallied:FROM
-- Answer  1
OPERATIONS['add-tallies'] = function(i)
  local from, last, names = PREFIX .. 'tallied:' .. ARGV[i], i + 2 + 2 * ARGV[i + 2], {}
  answer(1)
  if tonumber(call('GET', from) or 0) >= tonumber(ARGV[i + 1]) then return last + 1 end
  call('SET', from, ARGV[i + 1], 'EX', TALLIED_FOR)
  sum.changed = true
  for k = i + 3, last, 2 do names[#names + 1] = ARGV[k] end
  for _, period in ipairs(TALLY_PERIODS) do add_in(period, names, i + 3) end
  for _, key in ipairs(call('ZRANGEBYSCORE', TALLIES, '-inf', format('%.0f', NOW), 'LIMIT', '0', '16')) do
    call('DEL', key)
    call('ZREM', TALLIES, key)
  end
  return last + 1
end

-- read-tallies: returns the tallies of a tube of the last hours or days
--
-- ARGV    'read-tallies', period, count, tube
--           period  its index in TALLY_PERIODS, from 1 on
--           count   how many periods, the present one included
--           tube    '' for all tubes together
-- Keys    reads tallies:…
-- Answer  the time in ms; how many tallies there are, and for each the number of the period, and the tally
OPERATIONS['read-tallies'] = function(i)
  local period, found = TALLY_PERIODS[tonumber(ARGV[i])], {}
  local last = math.floor(NOW / period.ms)
  for number = last - ARGV[i + 1] + 1, last do
    local tally = call('HGET', tallies_of(period, number), ARGV[i + 2])
    if tally then found[#found + 1] = { number, tally } end
  end
  answer(NOW)
  answer(#found)
  for _, f in ipairs(found) do
    answer(f[1])
    answer_text(f[2])
  end
  return i + 3
end
