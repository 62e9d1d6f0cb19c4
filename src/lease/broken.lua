#!lua flags=allow-oom
-- silent: the client hears of it as `lastClose` when it resumes; what follows from it has its own events.
-- The socket of a session broke, as the daemon that held it noticed `agoMs` ago. Work goes back after the grace, unless
-- the session is resumed; the session itself lives to its deadline, which this does not move. Its waits keep their
-- places and are passed over meanwhile (`away`). Args: id, binding, code, reason, returns (0: our own drain, nothing goes back early), agoMs.
-- @include session
if not speaks(id, binding) then return turn.close('old') end
local grace = math.min(tonumber(call('HGET', P .. 'session:' .. id, 'graceMs')), session(id).ttl)
call('HSET', P .. 'session:' .. id, 'lastClose', '{"code":' .. code .. ',"reason":' .. json(reason) .. ',"at":"' ..
  iso(turn.now - tonumber(agoMs)) .. '"}', 'away', 1)
if returns == '1' and call('EXISTS', P .. 'held:' .. id) == 1 then
  call('ZADD', P .. 'grace', int(turn.lease + math.max(0, grace - tonumber(agoMs))), id)
end
return turn.close('ok')
