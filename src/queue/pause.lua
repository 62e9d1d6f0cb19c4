#!lua flags=allow-oom
-- A paused queue hands nothing out: claims look at this field in the script that would give the task away, so after the
-- answer no task starts. Args: queue, untilMs ('' for no end).
-- @include task
local key = P .. 'queue:' .. queue
local ends = untilMs ~= '' and turn.now + tonumber(untilMs) or nil
local before = call('HMGET', key, 'paused', 'pausedUntil')
if before[1] and not before[2] and not ends then return turn.close('ok') end
call('HSET', key, 'paused', 1)
if ends then
  call('HSET', key, 'pausedUntil', int(ends))
  call('ZADD', P .. 'wake', 'LT', int(ends), queue)
else call('HDEL', key, 'pausedUntil') end
call('ZADD', P .. 'queues', 0, queue)
emit('queue.paused', name(queue), '{"queue":' .. name(queue) .. (ends and ',"until":"' .. iso(ends) .. '"' or '') .. '}')
return turn.close('ok')
