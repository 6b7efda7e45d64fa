-- delete-held: jobs of a tube are deleted that connections of this instance hold
--
-- ARGV    'delete-held', tube, known, in_sets, size, n, ids…
--           known    1 if the tube is sure to go on existing
--           in_sets  1 if all of the jobs are in lease sets, 0 if none is
--           size     of all bodies, bytes
-- Keys    deletes the records; takes the ids from reserved:INST if they are not in lease
--         sets; reads flushed:INST; writes tube:TUBE, counts
-- Answer  1 if all jobs were there; else 0 and a text with 1 or 0 for each. The latter
--         happens if the tube was flushed, and of lease sets the instance was not told yet
--
-- Fast path: the records are not read. So it may be used only for jobs without facts that
-- the instance is sure to have reserved, and for the arrow 'delete reserved', which counts nothing.
-- script_test.go holds what this relies on.
local tube, n, last, size = ARGV[at + 1], tonumber(ARGV[at + 5]), at + 5 + ARGV[at + 5], ARGV[at + 4]
write_new_jobs()
if ARGV[at + 3] == '1' and call('EXISTS', PREFIX .. 'flushed:' .. INSTANCE) == 0 then
  n = call('DEL', unpack(ARGV, at + 6, last))
  answers[#answers + 1], sum.grouped = '1;', sum.grouped - n
elseif ARGV[at + 3] == '0' and call('ZREM', RESERVED, unpack(ARGV, at + 6, last)) == n then
  call('DEL', unpack(ARGV, at + 6, last))
  answers[#answers + 1] = '1;'
else
  SLOW = SLOW or slow_functions()
  n, size = SLOW.delete_each(tube, at + 6, last)
end
sum.changed, sum.deleted = true, sum.deleted + n
deletes[tube], bytes[tube] = (deletes[tube] or 0) + n, (bytes[tube] or 0) - size
if ARGV[at + 2] ~= '1' then
  SLOW = SLOW or slow_functions()
  SLOW.gone_from(tube)
end
at = last + 1
