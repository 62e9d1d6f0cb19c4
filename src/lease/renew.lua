#!lua flags=allow-oom
-- Live sessions, renewed in batches: at most 200 rows of session, binding, milliseconds since its last inbound frame. The
-- deadline counts from that frame, not from now, and only rises. A session past its deadline is not brought back (a lock
-- lost and silently taken back is worse than one lost). Answers the time, and 1 for each row, 0 if the session is gone, 2 if
-- it is bound to another socket.
-- @include session
local results = {}
for i = batchAt, #ARGV, 3 do
  local id = ARGV[i]
  if speaks(id, ARGV[i + 1]) then
    local ttl = tonumber(call('HGET', P .. 'session:' .. id, 'ttlMs'))
    call('ZADD', P .. 'sessions', 'XX', 'GT', int(turn.lease + ttl - tonumber(ARGV[i + 2])), id)
    results[#results + 1] = 1
  else results[#results + 1] = session(id).alive and 2 or 0 end
end
return turn.close({ int(turn.now), results })
