-- delete-leased: deletes jobs for the owners of their leases
--
-- ARGV    'delete-leased', about, n, and n times: token, id
--           about  names of the holders, 'LENGTH:NAME' of each; '' if none has one
-- Keys    as move-leased
-- Answer  for each 0 if that is not its present lease, or 1; or 2, for how many ms it has run, and its
--         tube, which the instance counts
--
-- Fast path: see call/leases.lua. 6.4 instead of 20.7 with move_leased for each.
if not with_token then define_leases() end
write_new_jobs()
delete_leased(ARGV[at + 1], at + 3, at + 2 + 2 * ARGV[at + 2])
at = at + 3 + 2 * ARGV[at + 2]
