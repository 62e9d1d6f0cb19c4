-- Numbers of one queue; every one is the size of a set or a counter that changes beside its set. Args: queue.
-- @include reading
local sizes = {}
for i, set in ipairs({ 'waiting', 'blocked', 'scheduled', 'active', 'completed', 'windowed', 'dead', 'cancelled', 'expired' }) do
  sizes[i] = call('ZCARD', P .. set .. ':' .. queue)
end
local now = nowMs()
local oldest = call('ZRANGE', P .. 'waiting:' .. queue, 0, 0)[1]
local age = 0
if oldest then
  local at = string.match(call('GETRANGE', P .. 'task:' .. oldest, 0, 20), '^(%d+)')
  local packed = call('GET', P .. 'run:' .. oldest)
  local run = packed and cmsgpack.unpack(packed)
  -- Ready since it was enqueued, due, or given back (the sixth column of history is the end).
  local back = run and run[HISTORY] and run[HISTORY][#run[HISTORY]][6]
  age = math.max(0, now - math.max(tonumber(at or now), run and run[DUE] or 0, back or 0))
end
local row = call('HMGET', P .. 'queue:' .. queue, 'paused', 'pausedUntil', 'maxDepth', 'admission')
local pressure = row[4] and row[4] ~= '' and call('HMGET', P .. 'level:' .. queue, 'level', 'shed', 'rejected')
local paused = row[1] and not (row[2] and tonumber(row[2]) <= now)
local slot, rates = math.floor(now / 5000), {}
for i, what in ipairs({ 'e', 'c', 'f' }) do
  local fields = {}
  for back = 0, 11 do fields[#fields + 1] = 'r' .. what .. ':' .. string.format('%.0f', slot - back) end
  local sum = 0
  for _, value in ipairs(call('HMGET', P .. 'counts:' .. queue, unpack(fields))) do sum = sum + tonumber(value or 0) end
  rates[i] = string.format('%.0f', sum)
end
local tenants, seen = {}, {}
for _, set in ipairs({ 'share:', 'busy:' }) do
  for _, tenant in ipairs(call('ZREVRANGE', P .. set .. queue, 0, 19)) do
    if not seen[tenant] then
      seen[tenant] = true
      tenants[#tenants + 1] = { tenant, call('ZSCORE', P .. 'share:' .. queue, tenant) or '0', call('ZSCORE', P .. 'busy:' .. queue, tenant) or '0' }
    end
  end
end
local kinds = {}
for _, kind in ipairs(call('ZRANGE', P .. 'lanes:' .. queue, 0, 64)) do
  local counted = call('HMGET', P .. 'counts:' .. queue, 'w:' .. kind, 'a:' .. kind)
  kinds[#kinds + 1] = { kind, counted[1] or '0', counted[2] or '0' }
end
local bands = call('HMGET', P .. 'counts:' .. queue, 'b:critical', 'b:high', 'b:normal', 'b:low', 'b:background')
for i = 1, 5 do bands[i] = bands[i] or '0' end
return { sizes, string.format('%.0f', age), paused and 1 or 0, row[3] or '', rates, tenants, kinds, bands,
  pressure and { pressure[1] or '0', pressure[2] or '0', pressure[3] or '0' } or '' }
