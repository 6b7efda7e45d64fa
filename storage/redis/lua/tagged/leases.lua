-- Leases: reservations that belong to no instance. The sorted set leases has the jobs by their
-- deadlines; the metadata of each has the token of its last lease.

-- next_ready finds the best ready job in the tubes in ARGV[from … upto] that are not paused,
-- and returns it; nil if there is none. If bytes is not 0, it is the largest body. If limit_pri
-- and limit are given, the job must come before the job with that priority and key. Members of
-- queues that have no record are dropped. The second result is true if the reply has no room
-- for its record.
local function next_ready(from, upto, bytes, limit_pri, limit)
  while true do
    local tube, pri, key, _, group = best_of(from, upto)
    if not tube then return nil end
    if limit and not (pri < limit_pri or pri == limit_pri and key < limit) then return nil end
    if not fits(key) then return nil, true end
    local j = load(key)
    if j and bytes > 0 and size_of(j) > bytes then return nil end
    local found = j or { key = key, tube = tube, pri = pri, group = group or false }
    found.state = 'ready'
    is_ready(found)
    leave_place(found)
    sum.changed = true
    if j then return j end
  end
end

-- take-lease: leases the best ready job of several tubes
--
-- ARGV    'take-lease', wait, bytes, pri, id, n, tubes…
--           wait     1 if a client waits: if there is no job, the instance is registered for a wake-up
--           bytes    how long its body can be; 0: any length
--           pri, id  of a job before which it must come; '' if there is none
-- Keys    as take, but for reserved:INST; writes the record, leases
-- Answer  DONE and the token, and the job is in the reply's ids and records; CUT or NOT_FOUND
OPS['take-lease'] = function(i)
  local from, last = i + 5, i + 4 + ARGV[i + 4]
  local limit = ARGV[i + 3] ~= '' and ARGV[i + 3] or nil
  local j, cut = next_ready(from, last, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), limit)
  if not j then
    answer(cut and CUT or NOT_FOUND)
    if not cut and ARGV[i] == '1' then await(from, last) end
    return last + 1
  end
  local f = change_metadata(j)
  f.lease = math.max(math.floor(MS * 1000), f.lease + 1)
  save_metadata(j)
  j.leased = true
  follow(j, 'reserve ready')
  answer(DONE)
  answer_text(format('%.0f', f.lease))
  taken[#taken + 1] = j.key
  add_record(j.key)
  return last + 1
end

-- move-leased: moves a job along an arrow for the owner of its lease
--
-- ARGV    'move-leased', move, token, id, pri, delay: as move
-- Keys    as move, and leases
-- Answer  1; 0 if that is not its present lease
OPS['move-leased'] = function(i)
  local move, j, arrow = ARGV[i], load(ARGV[i + 2]), nil
  if j and j.has_metadata then
    locate(j, false)
    j.mine = j.leased and metadata_of(j) ~= nil and format('%.0f', j.metadata.lease) == ARGV[i + 1]
    arrow = j.mine and arrow_for(j, move)
  end
  answer(arrow and 1 or 0)
  if arrow then
    j.stays = j.state == ARROW_TO[arrow]
    leave_place(j)
    if ARROW_SETS_PRI[arrow] then j.pri = tonumber(ARGV[i + 3]) end
    if ARROW_SETS_DELAY[arrow] then j.delay = tonumber(ARGV[i + 4]) end
    follow(j, arrow)
  end
  return i + 5
end
