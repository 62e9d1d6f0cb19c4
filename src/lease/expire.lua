#!lua flags=allow-oom
-- Sessions whose deadline has passed, at most 50 a call: marked ended, one event each. Answers how many there were and
-- when the next one is due (milliseconds, or '').
-- @include ending
local due = call('ZRANGEBYSCORE', P .. 'sessions', '-inf', int(turn.lease), 'LIMIT', 0, 50)
for _, id in ipairs(due) do
  local known = session(id)
  if known.exists and not known.ended then endSession(known, 'session.lost', 'expired')
  else
    call('ZREM', P .. 'sessions', id)
    call('ZREM', P .. 'sessionNames', id)
  end
end
local soonest = call('ZRANGE', P .. 'sessions', 0, 0, 'WITHSCORES')[2]
return turn.close({ #due, soonest and int(math.max(0, tonumber(soonest) - turn.lease)) or '' })
