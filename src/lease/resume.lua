#!lua flags=allow-oom
-- The same agent on another socket, perhaps of another daemon. The deadline rules: a session that has run out is lost,
-- swept or not. The new binding shuts out what the old socket still has on its way. Args: id, keyHash.
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
call('ZREM', P .. 'grace', id)
-- Passed over by locks and limits until its socket is bound here (lease/present.ts): what it is granted from now on is pushed.
if call('ZCOUNT', P .. 'held:' .. id, int(bands.kept), '+inf') > 0 then call('HSET', P .. 'session:' .. id, 'away', 1)
else call('HDEL', P .. 'session:' .. id, 'away') end
emit('session.resumed', json(id), '{' .. known.holder .. ',"binding":' .. binding .. '}')
local held = holdingsOf(id, '', 1000, turn.skew)
return turn.close({ binding, turn.epoch .. ':' .. int(turn.offset + turn.events), known.agent, known.tenant, int(known.ttl), row[2],
  row[3] or '', held })
