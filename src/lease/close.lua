#!lua flags=allow-oom
-- A session ends by the word of its client, of an operator, or of nobody (its socket was closed in order). It is marked
-- first: from here on every check of it fails. What it holds goes back in pages after that (give-back), by any daemon.
-- Args: id, binding ('' for whatever it is), reason, why (JSON of what an operator said, else '').
-- Answers how many holdings there are to give back, or -1 if there is no such session, or not under this binding.
-- @include ending
local known = session(id)
if not known.alive or (binding ~= '' and known.binding ~= binding) then return turn.close({ -1 }) end
local held = call('ZCARD', P .. 'held:' .. id)
if why ~= '' then
  emit('lease.revoked', json('session:' .. id), '{"lease":' .. json('session:' .. id) .. ',' .. known.holder ..
    ',"fence":' .. known.binding .. ',"reason":' .. why .. '}')
end
endSession(known, reason == 'closed' and 'session.closed' or 'session.lost', reason)
return turn.close({ held })
