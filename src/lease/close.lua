-- A session ends by the word of its client, of an operator, or of nobody (its deadline has passed). It is marked first:
-- from here on every check of it fails. What it holds goes back in pages after that (give-back), by any daemon. Args: id,
-- binding ('' for whatever it is), reason.
-- @include ending
local known = session(id)
if not known.exists or (binding ~= '' and known.binding ~= binding) or call('HEXISTS', P .. 'session:' .. id, 'ended') == 1 then
  return turn.close({ -1 })
end
endSession(known, reason == 'closed' and 'session.closed' or 'session.lost', reason)
return turn.close({ call('ZCARD', P .. 'held:' .. id) })
