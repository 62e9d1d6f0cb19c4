-- One field list, so that fields left out stay as they are. Args: queue; then field, value pairs. Answers the whole.
-- @include task
local key = P .. 'queue:' .. queue
if ARGV[batchAt] then call('HSET', key, unpack(ARGV, batchAt)) end
call('HSET', key, 'configured', 1)
call('ZADD', P .. 'queues', 0, queue)
-- Switched off it stays here until the gauges have seen it (backpressure/gauge.lua).
if call('HEXISTS', key, 'admission') == 1 then call('ZADD', P .. 'admissions', 0, queue) end
local reply = call('HMGET', key, 'maxAttempts', 'backoff', 'timeoutMs', 'leaseMs', 'keyWindowMs', 'keep', 'maxDepth', 'admission')
emit('queue.configured', name(queue), '{"queue":' .. name(queue) .. '}')
return turn.close(reply)
