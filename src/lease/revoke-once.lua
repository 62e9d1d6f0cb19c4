#!lua flags=allow-oom
-- An operator takes a once key from its holder: unknown, since the holder had no word. Args: id, reason (JSON).
-- @include once
local row = once.load(id)
if not row or row.state ~= 'inProgress' then return turn.close('!NOT_FOUND') end
emit('lease.revoked', json('once:' .. id), '{"lease":' .. json('once:' .. id) .. ',"session":' .. json(row.session) ..
  ',"agent":' .. json(row.agent) .. ',"fence":' .. row.fence .. ',"reason":' .. reason .. '}')
once.unknown(id, row, 'revoked', ',"message":' .. reason)
return turn.close('')
