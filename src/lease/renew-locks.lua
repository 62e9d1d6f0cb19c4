#!lua flags=allow-oom
-- silent: renewals change nothing anybody could be told of; a holder whose lease has run out loses its lock here.
-- Own leases of locks, by their holder; one without lives with its session and renews that. Args: caller, binding; then
-- at most 200 rows of grant, fence, leaseMs ('' for its own). Answers for each '!CODE …' or when it ends (milliseconds).
-- @include lock-grant
local results, known, spoke = {}, session(caller), false
local function currentOf(grant)
  if not grant then return 0 end
  return lock.node(grant.node or grant.rows[1][2]).fence
end
for at = batchAt, #ARGV, 3 do
  local id, fence, leaseMs = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local grant, result = lock.load(id), nil
  local ends = grant and grant.state == 'held' and grant.lease and tonumber(call('ZSCORE', P .. 'lockDue', 'e' .. id) or 0)
  if ends and ends <= turn.lease then
    lock.free(id, grant, 'leaseLapsed')
    grant = lock.load(id)
  end
  if not grant then result = '!NOT_FOUND'
  elseif grant.state ~= 'held' or grant.session ~= caller or grant.fence ~= fence or not known.alive or known.binding ~= binding then
    result = '!STALE_FENCE {"yours":' .. int(fence) .. ',"current":' .. int(currentOf(grant)) .. '}'
  elseif leaseMs and not grant.lease then
    result = '!INVALID {"message":"the lock has no lease of its own; renewing it renews its session and carries no leaseMs"}'
  elseif grant.lease then
    ends = turn.lease + (leaseMs or grant.lease)
    call('ZADD', P .. 'lockDue', int(ends), 'e' .. id)
    result, spoke = int(ends + turn.skew), true
  else result, spoke = int(turn.now + known.ttl), true end
  results[#results + 1] = result
end
if spoke then renew(known, 0) end
lock.pump()
lock.flush()
return turn.close(results)
