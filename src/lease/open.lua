#!lua flags=allow-oom
-- A new session. Its id and key are the daemon's choice; the binding is a fence, so that it rises with every open and
-- resume whatever the store has lost. Args: id, agent, tenant, ttlMs, graceMs, keyHash, labels (JSON).
-- @include session
local binding = int(nextFence())
call('HSET', P .. 'session:' .. id, 'agent', agent, 'tenant', tenant, 'ttlMs', ttlMs, 'graceMs', graceMs, 'key', keyHash,
  'binding', binding, 'daemon', daemon, 'labels', labels, 'openedAt', int(turn.now))
call('ZADD', P .. 'sessionNames', 0, id)
call('ZADD', P .. 'sessions', int(turn.lease + tonumber(ttlMs)), id)
emit('session.opened', json(id), '{' .. session(id).holder .. ',"tenant":' .. json(tenant) ..
  (labels ~= '{}' and ',"labels":' .. labels or '') .. '}')
return turn.close({ binding, turn.epoch .. ':' .. int(turn.offset + turn.events) })
