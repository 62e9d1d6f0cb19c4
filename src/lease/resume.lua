#!lua flags=allow-oom
-- The same agent on another socket, perhaps of another daemon. The deadline rules: a session that has run out is lost,
-- swept or not. The new binding shuts out what the old socket still has on its way. Args: id, keyHash,
-- bytes that the holdings may take on the wire. Answers also where lease.list goes on with them, or ''.
-- @include session
-- @include holdings
local known = session(id)
if not known.alive then return refuse('SESSION_LOST') end
local row = call('HMGET', P .. 'session:' .. id, 'key', 'graceMs', 'lastClose')
if row[1] ~= keyHash then return refuse('BAD_KEY') end
local binding = int(nextFence())
call('HSET', P .. 'session:' .. id, 'binding', binding, 'daemon', daemon)
call('HDEL', P .. 'session:' .. id, 'lastClose')
renew(known, 0)
-- The reply may be lost, or the socket be gone before it comes. Until the daemon says that the session is present
-- (lease/present.ts) it counts as broken: its work goes back after a grace from now, and locks and limits pass it over,
-- so that what it is granted comes after the reply and is pushed.
local holds = call('EXISTS', P .. 'held:' .. id)
if holds == 1 then call('ZADD', P .. 'grace', int(turn.lease + math.min(tonumber(row[2]), known.ttl)), id)
else call('ZREM', P .. 'grace', id) end
if call('ZCOUNT', P .. 'held:' .. id, int(bands.kept), '+inf') > 0 then call('HSET', P .. 'session:' .. id, 'away', 1)
else call('HDEL', P .. 'session:' .. id, 'away') end
emit('session.resumed', json(id), '{' .. known.holder .. ',"binding":' .. binding .. '}')
local held, more = holdingsOf(id, '', 1000, turn.skew, tonumber(bytes), 200)
return turn.close({ binding, turn.epoch .. ':' .. int(turn.offset + turn.events), known.agent, known.tenant, int(known.ttl), row[2],
  row[3] or '', held, holds, more })
