-- Decides whether the call is carried out, by what batch:INST has recorded:
-- 'NUMBER;LENGTH;IDS…TEXT', where LENGTH is that of the ids. If the call was carried out
-- already the call ends here, with the same reply as then.

-- limited, which nearly no call needs, is read in the same call: it is nil if no tube has jobs with
-- groups, and no policy limits which jobs may start, see groups/tubes.lua. So is keeping: it is nil if no
-- policy says anything about records of ended jobs.
local recorded, limited, keeping = unpack(call('MGET', BATCH, PREFIX .. 'limited', PREFIX .. 'keeping'))
recorded, limited, keeping = recorded or '', limited or nil, keeping or nil
local last = sub(recorded, 1, 16)
if last ~= ARGV[3] or last == '' and not registering then
  if last == 'dead' then return redis.error_reply(LOST .. ' the instance was declared dead') end
  if last ~= NUMBER then
    return redis.error_reply(LOST .. ' the batch does not follow the last one of its instance')
  end

  local sizes = {} -- of the large records

  -- read_record adds the record of a job to the reply; of a large one its beginning and its
  -- size.
  local function read_record(reply, key)
    local size = call('STRLEN', key)
    if size < LARGE then
      reply[#reply + 1] = call('GET', key) or ''
      return
    end
    sizes[#sizes + 1] = format('%d;%d;', #reply - RECORDS_FROM, size)
    reply[#reply + 1] = call('GETRANGE', key, '0', LONGEST_NAME)
  end

  -- read_again adds the records of the entry of ids at an index to the reply. It returns the
  -- index of the next entry.
  local function read_again(reply, ids, from)
    local first = tonumber(sub(ids, from + #PREFIX, from + KEY_LENGTH - 1))
    local n, cached, behind = string.match(ids, '^;?(%d*)[^,!]*(!?),?()', from + KEY_LENGTH)
    if cached == '' then
      for k = 0, (tonumber(n) or 1) - 1 do
        read_record(reply, PREFIX .. format(ID_FORMAT, first + k * partitions))
      end
    end
    return behind
  end

  -- If the instance waits for replicas there must be a write to wait for. The first one needs
  -- no memory, and so allows the second one when memory is full.
  call('DEL', PREFIX .. 'none')
  call('SET', BATCH, recorded)
  local length, begin = string.match(recorded, '^%d+;(%d+);()')
  local ids = sub(recorded, begin, begin + length - 1)
  local reply, from = { sub(recorded, begin + length), ids, '' }, 1
  while not void and from <= #ids do from = read_again(reply, ids, from) end
  reply[3] = concat(sizes)
  return reply
end

