-- The same agent on another socket, perhaps of another daemon. The deadline rules: a session that has run out is lost,
-- swept or not. The new binding shuts out what the old socket still has on its way. Args: id, keyHash.
-- @include session
-- @include holdings
local known = session(id)
if not known.alive then return refuse('SESSION_LOST') end
local row = call('HMGET', P .. 'session:' .. id, 'key', 'ttlMs', 'graceMs', 'lastClose', 'daemon')
if row[1] ~= keyHash then return refuse('BAD_KEY') end
local binding = int(nextFence())
call('HSET', P .. 'session:' .. id, 'binding', binding, 'daemon', daemon)
call('HDEL', P .. 'session:' .. id, 'lastClose')
call('ZADD', P .. 'sessions', int(turn.lease + tonumber(row[2])), id)
call('ZREM', P .. 'grace', id)
emit('session.resumed', json(id), '{' .. known.holder .. ',"binding":' .. binding .. '}')
return turn.close({ binding, turn.epoch .. ':' .. int(turn.offset + turn.events), known.agent, known.tenant, row[2], row[3],
  row[4] or '', holdingsOf(id, '', 1000), row[5] or '' })
