-- silent: as lease.lua.
-- Gives the lease back on a clean stop, with the place reached, and says so on the channel: the next one takes over at
-- once and goes on exactly there.
-- @include turn
local key = P .. 'ingress'
local lease = call('HMGET', key, 'daemon', 'fence')
if lease[1] ~= daemon or lease[2] ~= fence then return turn.close(0) end
call('HSET', key, 'daemon', '', 'until', 0, 'mark', mark, 'count', count, 'heardAt', int(math.min(tonumber(doneAt), turn.now)))
call('PUBLISH', 'sb:ingress', concat({ namespaceName, fence, '', '', 0 }, ' '))
return turn.close(1)
