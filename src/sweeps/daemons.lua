#!lua flags=allow-oom
-- Who serves this namespace. A daemon signs every sweep; one that has not for 10 s of the lease clock has left, and
-- whichever daemon sweeps next says so. Args: leaving ('1' for the last sign of a daemon that stops).
-- @include turn
local key = P .. 'daemons'
if leaving == '1' then
  -- The stop mark: nothing that was given before it can be lost without it (turn.lua).
  call('HSET', KEYS[1], 'clean', int(turn.last))
  turn.touched = true
  if call('ZREM', key, daemon) == 1 then emit('daemon.left', json(daemon), '{"daemon":' .. json(daemon) .. ',"reason":"stopped"}') end
  return turn.close({})
end
if call('ZADD', key, int(turn.lease), daemon) == 1 then emit('daemon.joined', json(daemon), '{"daemon":' .. json(daemon) .. '}') end
for _, other in ipairs(call('ZRANGEBYSCORE', key, '-inf', int(turn.lease - 10000), 'LIMIT', 0, 20)) do
  call('ZREM', key, other)
  emit('daemon.left', json(other), '{"daemon":' .. json(other) .. ',"reason":"silent"}')
end
return turn.close({})
