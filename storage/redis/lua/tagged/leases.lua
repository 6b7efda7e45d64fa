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

-- give_token gives a job, whose header is written later, the token of a new lease, and returns it.
local function give_token(j)
  local f = change_metadata(j)
  f.lease = math.max(math.floor(MS * 1000), f.lease + 1)
  save_metadata(j)
  return f.lease
end

-- lease_large gives a job such a token if its record is large, and returns it; nil if it is not.
function SLOW.lease_large(key)
  if length_of(key) < LARGE then return nil end
  local j = load(key)
  local token = give_token(j)
  save(j)
  return token
end

-- lease_ready leases a ready job, which is in no place any more, and returns the token.
local function lease_ready(j)
  local token = give_token(j)
  j.leased = true
  follow(j, 'reserve ready')
  taken[#taken + 1] = j.key
  add_record(j.key)
  return token
end

-- lease_offered leases up to n of the next jobs of the tube in ARGV[at], in a call with limits or
-- groups, and adds the tokens to tokens. It returns what reserve_first returns.
function SLOW.lease_offered(at, n, tokens)
  for got = 0, n - 1 do
    local j, cut = next_ready(at, at, 0)
    if not j then return got, false, cut or false end
    tokens[#tokens + 1], sum.takes = format('%.0f;', lease_ready(j)), sum.takes + 1
  end
  return n, false, false
end

-- take-lease: leases the best ready job of several tubes
--
-- ARGV    'take-lease', wait, bytes, pri, id, n, tubes…
--           wait     1 if a client waits: if there is no job, the instance is registered for a wake-up
--           bytes    how long its body can be; 0: any length
--           pri, id  of a job before which it must come; '' if there is none
-- Keys    as take, but for reserved:INST; writes the record, leases
-- Answer  DONE and the token, and the job is in the reply's ids and records; CUT or NOT_FOUND
OPERATIONS['take-lease'] = function(i)
  local from, last = i + 5, i + 4 + ARGV[i + 4]
  local limit = ARGV[i + 3] ~= '' and ARGV[i + 3] or nil
  local j, cut = next_ready(from, last, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), limit)
  if not j then
    answer(cut and CUT or NOT_FOUND)
    if not cut and ARGV[i] == '1' then await(from, last) end
    return last + 1
  end
  answer(DONE)
  answer_text(format('%.0f', lease_ready(j)))
  return last + 1
end

-- move_leased carries out move-leased.
function SLOW.move_leased(move, token, key, pri, delay)
  local j, arrow = load(key), nil
  if j and j.has_metadata then
    locate(j, false)
    j.mine = j.leased and metadata_of(j) ~= nil and format('%.0f', j.metadata.lease) == token
    arrow = j.mine and arrow_for(j, move)
  end
  local refused = arrow and move == 'finish' and SLOW.keep_of(j) == 0
  answer(refused and 2 or arrow and 1 or 0)
  if arrow and not refused then
    j.stays = j.state == ARROW_TO[arrow]
    leave_place(j)
    if ARROW_SETS_PRI[arrow] then j.pri = tonumber(pri) end
    if ARROW_SETS_DELAY[arrow] then j.delay = tonumber(delay) end
    if j.stays then SLOW.lease_held(j) end
    follow(j, arrow)
    sum.held_since = nil
  end
end

-- move-leased: moves a job along an arrow for the owner of its lease
--
-- ARGV    'move-leased', move, token, id, pri, delay: as move
-- Keys    as move, and leases
-- Answer  1; 0 if that is not its present lease; 2 for finish if no record would be kept, and nothing was done
OPERATIONS['move-leased'] = function(i)
  SLOW.move_leased(unpack(ARGV, i, i + 4))
  return i + 5
end

-- tube_policies returns the texts of the policies of a tube, a line each.
function SLOW.tube_policies(tube) return concat(policy_texts(tube), '\n') end
