#!lua flags=allow-oom
-- silent: renewals change nothing anybody could be told of; a holder whose lease has run out loses its key here.
-- Leases of once keys, by their holder. Args: caller, binding; then at most 200 rows of key, fence, leaseMs ('' for its
-- own). Answers for each '!CODE …' or when it ends (milliseconds).
-- @include once-held
local results, spoke = {}, false
for at = batchAt, #ARGV, 3 do
  local key, fence = ARGV[at], ARGV[at + 1]
  local row = once.load(key)
  local result = once.notHeld(row, fence, caller, binding)
  if not result then
    local ends = turn.lease + (tonumber(ARGV[at + 2]) or row.lease)
    call('ZADD', P .. 'onceDue', int(ends), key)
    result, spoke = int(ends + turn.skew), true
  end
  results[#results + 1] = result
end
if spoke then renew(session(caller), 0) end
return turn.close(results)
