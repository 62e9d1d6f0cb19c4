#!lua flags=allow-oom
-- The socket of a session broke, as the daemon that held it noticed now. Work goes back after the grace, unless the
-- session is resumed; the session itself lives to its deadline, which this does not move. Args: id, binding, code, reason.
-- @include session
if not speaks(id, binding) then return turn.close('old') end
local row = call('HMGET', P .. 'session:' .. id, 'graceMs', 'ttlMs')
call('HSET', P .. 'session:' .. id, 'lastClose', '{"code":' .. code .. ',"reason":' .. json(reason) .. ',"at":"' .. iso(turn.now) .. '"}')
if call('EXISTS', P .. 'held:' .. id) == 1 and returns == '1' then
  call('ZADD', P .. 'grace', int(turn.lease + math.min(tonumber(row[1]), tonumber(row[2]))), id)
end
turn.touched = true
return turn.close('ok')
