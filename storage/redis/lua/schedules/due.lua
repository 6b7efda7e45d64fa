-- Schedules that are due, and claims of them.

-- end_claims makes records due again whose claim has ended, at most limit.
local function end_claims(limit)
  local over = call('ZRANGEBYSCORE', CLAIMS, '-inf', format('%.0f', NOW), 'LIMIT', '0', limit)
  for _, name in ipairs(over) do
    local _, due = unpack_record(call('HGET', SCHEDULES, name))
    set_due(name, due or NEVER)
  end
end

-- claim hands out a record that is due. It answers name, record and body.
local function claim(name, record)
  call('ZREM', DUES, name)
  call('ZADD', CLAIMS, format('%.0f', NOW + CLAIM), name)
  answer_text(name)
  answer_text(record)
  answer_text(call('HGET', BODIES, name) or '')
end

-- first_due returns the names of the records that are due first, at most limit, and those records,
-- as far as the reply can return their bodies: at least one. What has no record is removed.
local function first_due(limit)
  local names = call('ZRANGEBYSCORE', DUES, '-inf', format('%.0f', NOW), 'LIMIT', '0', limit)
  local records, all, size = names[1] and call('HMGET', SCHEDULES, unpack(names)) or {}, {}, 0
  for k, name in ipairs(names) do
    local _, _, bytes = unpack_record(records[k])
    size = size + (bytes or 0)
    if #all > 0 and size > BUDGET then break end
    if bytes then
      all[#all + 1] = { name, records[k] }
    else
      call('ZREM', DUES, name)
    end
  end
  return all
end

-- schedules due: returns records that are due, the earliest first, and claims them. That is not
-- recorded: if the reply is lost, nobody gets them until the claims end
--
-- ARGV    'schedules', 'due', limit
--           limit  how many at most
-- Keys    reads schedules, schedule-bodies; writes schedule-dues, schedule-claims
-- Answer  the time in ms; how many, and for each name, record and body
function COMMANDS.due(i)
  end_claims(ARGV[i])
  local all = first_due(ARGV[i])
  answer(NOW)
  answer(#all)
  for _, found in ipairs(all) do claim(found[1], found[2]) end
  if OPS.note_schedules() and all[1] then note_due(NOW) end -- there are more
  return i + 1
end

return COMMANDS
