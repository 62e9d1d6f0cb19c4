-- One task, whole. Args: id. Answers head, run, and for a fresh one whether it stands anywhere.
-- @include reading
local head = call('GET', P .. 'task:' .. id)
if not head then return refuse('NOT_FOUND') end
return { head, flat(call('GET', P .. 'run:' .. id)), call('HGET', P .. 'queue:' .. (string.match(head, '^%Z*%z%Z*%z%Z*%z(%Z*)%z')), 'maxAttempts') or '3' }
