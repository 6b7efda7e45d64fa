-- delete-held: deletes jobs of a tube that connections of this instance hold
--
-- ARGV    'delete-held', tube, known, in_sets, size, about, n, ids…
--           known    1 if the tube certainly exists afterwards
--           in_sets  1 if all of the jobs are in lease sets, 0 if none is
--           size     of all bodies, bytes
--           about    of each when it was delivered, in ms, and the name of the holder, 'MS;LENGTH:NAME'; '' if that is not known
-- Keys    deletes the records; removes the ids from reserved:INST if they are not in lease
--         sets; reads flushed:INST; writes tube:TUBE, counts, and the keys of ended jobs
-- Answer  1 if all jobs were there; else 0 and a text with 1 or 0 for each. Jobs can be missing
--         if the tube was flushed, or because of lease sets that the instance does not know yet
--
-- Fast path: the records are not read. In lease sets 2.2 instead of 9.4 with delete_each, else 2.7 instead of 5.8.
-- So it can be used only for jobs without metadata that the instance has certainly reserved, and for the arrow
-- 'delete reserved', which counts nothing. lua_test.go checks these assumptions.
local tube, n, last, size = ARGV[at + 1], tonumber(ARGV[at + 6]), at + 6 + ARGV[at + 6], ARGV[at + 4]
write_new_jobs()
if sum.keeping then
  sum.ended().add_held(tube, at + 7, last, ARGV[at + 5])
end
if ARGV[at + 3] == '1' and call('EXISTS', PREFIX .. 'flushed:' .. INSTANCE) == 0 then
  n = call('DEL', unpack(ARGV, at + 7, last))
  answers[#answers + 1], sum.in_sets = '1;', sum.in_sets - n
elseif ARGV[at + 3] == '0' and call('ZREM', RESERVED, unpack(ARGV, at + 7, last)) == n then
  call('DEL', unpack(ARGV, at + 7, last))
  answers[#answers + 1] = '1;'
else
  SLOW = SLOW or slow_functions()
  n, size = SLOW.delete_each(tube, at + 7, last)
end
if limited then
  SLOW = SLOW or slow_functions()
  SLOW.groups().freed(tube, n)
end
sum.changed, sum.deleted = true, sum.deleted + n
deletes[tube], bytes[tube] = (deletes[tube] or 0) + n, (bytes[tube] or 0) - size
if ARGV[at + 2] ~= '1' then
  SLOW = SLOW or slow_functions()
  SLOW.gone_from(tube)
end
at = last + 1
