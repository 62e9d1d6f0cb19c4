#!lua flags=allow-oom
-- Args: queue.
-- @include task
local key = P .. 'queue:' .. queue
if call('HDEL', key, 'paused', 'pausedUntil') > 0 then
  emit('queue.unpaused', name(queue), '{"queue":' .. name(queue) .. '}')
end
return turn.close('ok')
