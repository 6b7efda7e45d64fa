-- drop-sets: removes lease sets whose jobs have all been deleted
--
-- ARGV    'drop-sets', n, names of lease sets…
-- Keys    removes them from reserved:INST and groups:INST
-- Answer  nothing
local last = at + 1 + ARGV[at + 1]
call('ZREM', RESERVED, unpack(ARGV, at + 2, last))
call('ZREM', LEASE_SETS, unpack(ARGV, at + 2, last))
at = last + 1
