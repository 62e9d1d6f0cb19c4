-- silent: it only reads.
-- How full Redis is, and how many bytes of events the log of this namespace holds. Answers { used, max (0: no limit), log }.
-- @include reading
local info = call('INFO', 'memory')
local bytes = tonumber(call('HGET', KEYS[1], 'bytes') or 0)
local first = call('ZRANGE', P .. 'logIndex', 0, 0)[1]
local before = first and tonumber(string.match(first, ':(%d+)$')) or bytes
return { string.match(info, 'used_memory:(%d+)'), string.match(info, 'maxmemory:(%d+)'), string.format('%.0f', math.max(0, bytes - before)) }
