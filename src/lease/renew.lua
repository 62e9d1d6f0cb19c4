#!lua flags=allow-oom
-- silent: renewals change nothing anybody could be told of, and there are thousands a second.
-- Live sessions, renewed in batches: at most 200 rows of session, binding, milliseconds since its last inbound frame. The
-- deadline counts from that frame, not from now, and only rises. A session past its deadline is not brought back (a lock
-- lost and silently taken back is worse than one lost). Answers the time, and for each row '' if it was renewed, '0' if
-- the session is gone, else the binding of the other socket that has it.
-- @include session
local results = {}
for i = batchAt, #ARGV, 3 do
  local known = session(ARGV[i])
  if not known.alive then results[#results + 1] = '0'
  elseif known.binding ~= ARGV[i + 1] then results[#results + 1] = known.binding
  else
    renew(known, tonumber(ARGV[i + 2]))
    results[#results + 1] = ''
  end
end
return turn.close({ int(turn.now), results })
