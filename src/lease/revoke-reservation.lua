#!lua flags=allow-oom
-- An operator takes a reservation from its holder: it counts as spent; or ends one wait. Args: id, reason (JSON).
-- @include limit-wait
local r = limit.load(id)
if not r or not r.cost then return refuse('NOT_FOUND') end
emit('lease.revoked', json('reservation:' .. id), '{"lease":' .. json('reservation:' .. id) .. ',"limit":' .. json(r.limit) ..
  ',"session":' .. json(r.session) .. ',"agent":' .. json(r.agent) .. ',"fence":' .. int(r.fence or 0) .. ',"reason":' .. reason .. '}')
limit.giveBack(id, r, 'revoked', 'cancelled')
limit.flush()
return turn.close('ok')
