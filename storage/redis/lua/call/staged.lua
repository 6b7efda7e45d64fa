-- Staged records were sent before the call, by a SET each on the same connection. They are in
-- keys of their own, and expire unless the call renames them. If one is missing nothing is
-- done.

local STAGED = PREFIX .. 'put:' .. INSTANCE .. ':' .. NUMBER .. ':'
for k = 1, staged do
  if call('EXISTS', STAGED .. k) == 0 then
    return redis.error_reply(UNSTAGED .. ' a record that was sent before the batch is not there')
  end
end
