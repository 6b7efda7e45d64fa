-- limits_starts returns whether the text of a policy limits which jobs may start, as
-- schema.LimitsStarts does.
local function limits_starts(text)
  for word in string.gmatch(text, '([%l-]+):') do
    if word == 'concurrency' or word == 'rate' or word == 'push-rate' or string.sub(word, 1, 6) == 'group-' then return true end
  end
  return false
end
