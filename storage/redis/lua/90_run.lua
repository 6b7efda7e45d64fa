-- What most batches consist of, for many jobs at once. at is where an operation
-- begins in ARGV; what it says is written above it. The other operations are
-- functions in rare/, as is what becomes of tubes that nobody attends.

local at = 7
while ARGV[at] do
  local word, tube = ARGV[at], ARGV[at + 1]
  if word == 'put' then
    -- put tube known n urgent pri terms records…: new jobs without a delay. known
    -- is 1 if the tube is sure to exist. They are a run, 'priority;TTR;INST' are
    -- its terms; if pri and terms are '', each record has its priority before it.
    local n, pri, last = tonumber(ARGV[at + 3]), ARGV[at + 5], at + 6
    if pri ~= '' then
      local first = new_job(ARGV[last + 1])
      for k = last + 2, last + n do new_job(ARGV[k]) end
      call('ZADD', READY .. tube, pri, run_of(first, n, ARGV[at + 6]))
      join(tube, pri, n - 1)
      last = last + n
    else
      local entries = {}
      for k = 1, 2 * n, 2 do
        last = last + 2
        entries[k], entries[k + 1] = ARGV[last - 1], new_job(ARGV[last])
      end
      add_all(READY .. tube, entries)
    end
    sum.changed, sum.urgent = true, sum.urgent + ARGV[at + 4]
    roused[tube] = (roused[tube] or 0) + n
    totals[tube] = (totals[tube] or 0) + n
    if ARGV[at + 2] ~= '1' then
      R = R or rare()
      R.put_in(tube)
    end
    at = last + 1
  elseif word == 'take' then
    -- take tube wait n → m: the first m of n takes got a job, see the reply; -m - 1 if
    -- the others are cut. If wait is 1 and no job is left for them, the instance is
    -- told of the next.
    write_news()
    local before, left, more, cut = sum.takes, tonumber(ARGV[at + 3]), not is_paused(tube), false
    while more do
      local got
      got, more, cut = reserve_first(tube, left)
      left = left - got
      more = more and left > 0
    end
    if left > 0 and not cut and ARGV[at + 2] == '1' then
      call('ZADD', PREFIX .. 'waiting:' .. tube, 'NX', format('%.0f', NOW), ME)
    end
    local m = sum.takes - before
    said[#said + 1] = format('%d;', cut and left > 0 and -m - 1 or m)
    at = at + 4
  elseif word == 'gone' then
    -- gone tube known grouped n ids… → 1, or 0 and a text with 1 or 0 for each.
    -- The jobs, which connections of this instance hold, are deleted. All are
    -- there unless somebody has been at the keys; then those found are deleted.
    -- grouped is 1 if they are in groups, which they must be then.
    local n, last = tonumber(ARGV[at + 4]), at + 4 + ARGV[at + 4]
    write_news()
    if ARGV[at + 3] == '1' then
      n = call('DEL', unpack(ARGV, at + 5, last))
      said[#said + 1], sum.grouped = '1;', sum.grouped - n
    elseif call('ZREM', RESERVED, unpack(ARGV, at + 5, last)) == n then
      call('DEL', unpack(ARGV, at + 5, last))
      said[#said + 1] = '1;'
    else
      R = R or rare()
      n = R.delete_each(tube, at + 5, last)
    end
    sum.changed, sum.deleted = true, sum.deleted + n
    deletes[tube] = (deletes[tube] or 0) + n
    if ARGV[at + 2] ~= '1' then
      R = R or rare()
      R.gone_from(tube)
    end
    at = last + 1
  elseif word == 'over' then
    -- over n groups… : all of their jobs have been deleted. It says nothing.
    local last = at + 1 + ARGV[at + 1]
    call('ZREM', RESERVED, unpack(ARGV, at + 2, last))
    call('ZREM', GROUPS, unpack(ARGV, at + 2, last))
    at = last + 1
  else
    if word ~= 'put-delayed' then write_news() end
    R = R or rare()
    at = R[word](at + 1)
  end
end
write_news()

for tube, by in pairs(totals) do
  -- A tube that has its first jobs may be one that is not there yet.
  if call('HINCRBY', PREFIX .. 'tube:' .. tube, 'total', format('%d', by)) == by then
    R = R or rare()
    R.open_tube(tube)
  end
end
for tube, by in pairs(joined) do
  if by ~= 0 then call('HINCRBY', PREFIX .. 'tube:' .. tube, 'joined', format('%d', by)) end
end
for tube, by in pairs(joined_urgent) do
  if by ~= 0 then call('HINCRBY', PREFIX .. 'tube:' .. tube, 'joined-urgent', format('%d', by)) end
end
for tube, by in pairs(deletes) do call('HINCRBY', PREFIX .. 'tube:' .. tube, 'deletes', format('%d', by)) end
if sum.deleted ~= 0 then call('HINCRBY', COUNTS, 'deleted', format('%d', sum.deleted)) end
if sum.urgent ~= 0 then call('HINCRBY', COUNTS, 'urgent', format('%d', sum.urgent)) end
if sum.grouped ~= 0 then call('HINCRBY', COUNTS, 'grouped', format('%d', sum.grouped)) end
if R then R.count() end

-- hints are the tubes of which this instance is told. Of those instances that
-- wait for a job of a tube as many are told as there are jobs, the one that
-- waits longest first. It is told once and asks again.
local hints, hinted = '', 0
for tube, n in pairs(roused) do
  local waiting = PREFIX .. 'waiting:' .. tube
  if n > 0 and call('EXISTS', waiting) == 1 and not is_paused(tube) then
    local told = call('ZPOPMIN', waiting, format('%d', n))
    for k = 1, #told, 2 do
      if told[k] == ME then
        hints, hinted = hints .. #tube .. ':' .. tube, hinted + 1
      else
        call('RPUSH', PREFIX .. 'mail:' .. told[k], tube)
      end
    end
  end
end

local text = (sum.changed and '1;' or '0;')
  .. (sum.puts > 0 and format('%.0f;', first_id) or '0;')
  .. (sum.earliest < math.huge and format('%.0f;', math.max((sum.earliest - MS) * 1000 + 1, 0)) or '-1;')
  .. (hinted > 0 and hinted .. ';' .. hints or '0;')
  .. concat(said)
local ids = concat(taken, ',')
if sum.changed then call('SET', BATCH, NUMBER .. ';' .. #ids .. ';' .. ids .. '0;0;' .. text) end
records[1], records[2] = clock[1] .. ';' .. clock[2] .. ';' .. text, ids
return records
