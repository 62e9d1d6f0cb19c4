#!lua flags=allow-oom
-- silent: what is forgotten here is empty, and nobody could tell that it was there.
-- A queue with nothing in it, not paused and not configured, is forgotten: names are free, so keys must not pile up.
-- Also drops rates older than a minute and virtual times of tenants with nothing ready. Args: queue.
-- @include task
local key = P .. 'counts:' .. queue
local oldest, stale = floor(turn.now / 5000) - 13, {}
for _, field in ipairs(call('HKEYS', key)) do
  local slot = string.match(field, '^r%a:(%d+)$')
  if slot and tonumber(slot) < oldest and #stale < 200 then stale[#stale + 1] = field end
end
if #stale > 0 then call('HDEL', key, unpack(stale)) end
local known = queueOf(queue)
-- The last waiting task may have gone without a claim (purged, cancelled, expired): nobody is ahead of anybody then.
if call('EXISTS', P .. 'waiting:' .. queue) == 0 and call('DEL', P .. 'vtime:' .. queue) == 1 then
  call('HDEL', P .. 'queue:' .. queue, 'vtime')
end
for _, tenant in ipairs(call('ZRANGEBYSCORE', P .. 'vtime:' .. queue, '-inf', int(known.vtime), 'LIMIT', 0, 100)) do
  if not call('ZSCORE', P .. 'share:' .. queue, tenant) then call('ZREM', P .. 'vtime:' .. queue, tenant) end
end
local inUse = call('EXISTS', key)
for _, set in ipairs({ 'waiting', 'blocked', 'scheduled', 'active', 'completed', 'windowed', 'dead', 'cancelled', 'expired' }) do
  inUse = inUse + call('EXISTS', P .. set .. ':' .. queue)
end
local row = call('HMGET', P .. 'queue:' .. queue, 'paused', 'configured')
if inUse == 0 and not row[1] and not row[2] then
  call('DEL', P .. 'queue:' .. queue, P .. 'keys:' .. queue, P .. 'vtime:' .. queue)
  call('ZREM', P .. 'queues', queue)
end
return turn.close({})
