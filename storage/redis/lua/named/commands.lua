-- The operations that all kinds of named records have. A kind defines for them:
--
--   read(names)          returns the records with these names, in their order; false or nil for one that there is not
--   due_of(record)       returns when a record is due, in ms as text, or NEVER, and how many bytes it adds to the reply
--                        of due; nil if there is none, or it is broken
--   say_record(record, name, why)
--                        adds a record to the reply of the operation why: get, list or due
--   add_latest(names, limit)
--                        may put others that are due in place of some of names, which are limit, the earliest ones

-- end_claims makes records due again whose claim has ended, at most limit.
local function end_claims(limit)
  local names = call('ZRANGEBYSCORE', CLAIMS, '-inf', format('%.0f', NOW), 'LIMIT', '0', limit)
  local records = read(names)
  for k, name in ipairs(names) do place(name, due_of(records[k]) or NEVER) end
end

-- say_found adds to the reply how many numbers are in found, and those of the records.
local function say_found(found, names, records, why)
  answer(#found)
  for _, k in ipairs(found) do
    answer_text(names[k])
    say_record(records[k], names[k], why)
  end
end

-- KIND get: returns a record
--
-- ARGV    'get', name
-- Answer  the time in ms; 1, and the record, or 0
function COMMANDS.get(i)
  local record = read({ ARGV[i] })[1]
  answer(NOW)
  answer(record and 1 or 0)
  if record then say_record(record, ARGV[i], 'get') end
  return i + 1
end

-- KIND list: returns records in the order of their names
--
-- ARGV    'list', limit, after
--           limit  how many at most; more than 0
--           after  the name of the last one of the page before; '' for the first page
-- Answer  the time in ms; 1 if there are more, else 0; how many, and for each name and record
function COMMANDS.list(i)
  local limit, after, found = tonumber(ARGV[i]), ARGV[i + 1], {}
  local names = call('ZRANGEBYLEX', NAMES, after == '' and '-' or '(' .. after, '+', 'LIMIT', '0', format('%d', limit + 1))
  local more = table.remove(names, limit + 1)
  local records = read(names)
  for k in ipairs(names) do
    if records[k] then found[#found + 1] = k end
  end
  answer(NOW)
  answer(more and 1 or 0)
  say_found(found, names, records, 'list')
  return i + 2
end

-- KIND due: returns records that are due, and claims them, as far as the reply has room: at least one. That is not
-- recorded: if the reply is lost, nobody gets them until the claims end
--
-- ARGV    'due', limit
--           limit  how many at most
-- Answer  the time in ms; how many, and for each name and record
function COMMANDS.due(i)
  end_claims(ARGV[i])
  local found, bytes = {}, 0
  local names = call('ZRANGEBYSCORE', DUES, '-inf', format('%.0f', NOW), 'LIMIT', '0', ARGV[i])
  if #names == tonumber(ARGV[i]) then add_latest(names, #names) end
  local records, ends = read(names), format('%.0f', NOW + CLAIM)
  for k, name in ipairs(names) do
    local due, size = due_of(records[k])
    bytes = bytes + (size or 0)
    if found[1] and bytes > BUDGET then break end
    call('ZREM', DUES, name)
    if due then
      call('ZADD', CLAIMS, ends, name)
      found[#found + 1] = k
    end
  end
  answer(NOW)
  say_found(found, names, records, 'due')
  if SLOW.note_dues(KIND) and found[1] then note_due(NOW) end -- there are more
  return i + 1
end
