-- Sessions whose deadline has passed, at most 50 a call: marked ended, one event each. Answers whether more are due and
-- when the next one is (milliseconds, or '').
-- @include ending
local due = call('ZRANGEBYSCORE', P .. 'sessions', '-inf', int(turn.lease), 'LIMIT', 0, 50)
for _, id in ipairs(due) do
  local known = session(id)
  if known.exists then endSession(known, 'session.lost', 'expired') else call('ZREM', P .. 'sessions', id) end
end
local soonest = call('ZRANGE', P .. 'sessions', 0, 0, 'WITHSCORES')[2]
return turn.close({ #due, soonest and int(math.max(0, tonumber(soonest) - turn.lease)) or '' })
