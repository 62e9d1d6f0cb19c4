#!lua flags=allow-oom
-- silent: renewals change nothing anybody could be told of; a holder whose lease has run out loses its reservation here.
-- Own leases of reservations, by their holder; one without lives with its session and renews that. Args: caller, binding;
-- then at most 200 rows of reservation, fence, leaseMs ('' for its own). Answers for each '!CODE …' or when it ends
-- (milliseconds).
-- @include limit-wait
local results, known, spoke = {}, session(caller), false
for at = batchAt, #ARGV, 3 do
  local id, fence, leaseMs = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local r, result = limit.load(id), nil
  local ends = r and r.state == 'granted' and r.lease and tonumber(call('ZSCORE', P .. 'limitDue', 'e' .. id) or 0)
  if ends and ends <= turn.lease then
    limit.giveBack(id, r, 'leaseLapsed')
    r = limit.load(id)
  end
  if not r then result = '!NOT_FOUND'
  elseif r.state ~= 'granted' or r.session ~= caller or r.fence ~= fence or not known.alive or known.binding ~= binding then
    result = '!STALE_FENCE {"yours":' .. int(fence) .. ',"current":' .. int(r.state == 'granted' and r.fence or 0) .. '}'
  elseif leaseMs and not r.lease then
    result = '!INVALID {"message":"the reservation has no lease of its own; renewing it renews its session and carries no leaseMs"}'
  elseif r.lease then
    ends = turn.lease + (leaseMs or r.lease)
    call('ZADD', P .. 'limitDue', int(ends), 'e' .. id)
    result, spoke = int(ends + turn.skew), true
  else result, spoke = int(turn.now + known.ttl), true end
  results[#results + 1] = result
end
if spoke then renew(known, 0) end
limit.flush()
return turn.close(results)
