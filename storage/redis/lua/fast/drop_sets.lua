-- drop-sets: removes lease sets whose jobs have all been deleted
--
-- ARGV    'drop-sets', n, names of lease sets…
-- Keys    removes them from reserved:INST and groups:INST
-- Answer  nothing
--
-- It is here because a call that deletes many jobs would else need the functions of slow/: 2.2 instead of 3.8 for a
-- deleted job, with 16 in a call 3.8 instead of 8.7.
local last = at + 1 + ARGV[at + 1]
call('ZREM', RESERVED, unpack(ARGV, at + 2, last))
call('ZREM', LEASE_SETS, unpack(ARGV, at + 2, last))
at = last + 1
