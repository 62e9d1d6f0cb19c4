#!lua flags=allow-oom
-- An operator takes one grant from its holder, or ends one wait. Args: id, reason.
-- @include lock-grant
local grant = lock.load(id)
if not grant or (grant.state ~= 'held' and grant.state ~= 'waiting') then return refuse('NOT_FOUND') end
emit('lease.revoked', json('lock:' .. id), '{"lease":' .. json('lock:' .. id) .. ',"lock":' .. json(grant.rows[1][1]) ..
  ',"session":' .. json(grant.session) .. ',"agent":' .. json(grant.agent) .. ',"fence":' .. int(grant.fence or 0) ..
  ',"reason":' .. json(reason) .. '}')
if grant.state == 'held' then lock.free(id, grant, 'revoked', ',"message":' .. json(reason))
else lock.endWait(id, grant, 'cancelled') end
lock.pump()
lock.flush()
return turn.close({ lock.left and 1 or 0 })
