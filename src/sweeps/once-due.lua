#!lua flags=allow-oom
-- The clocks of the once ledger: leases that run out leave their key unknown, records past their keep are forgotten (how
-- long they are kept was said at their begin). At most 100 a call. Answers milliseconds to the next one, or ''.
-- @include once
local due = call('ZRANGEBYSCORE', P .. 'onceDue', '-inf', int(turn.lease), 'LIMIT', 0, 100)
for _, key in ipairs(due) do
  -- A clock without a record is left from nothing we know, and must not keep the sweep busy for ever.
  if not once.load(key) then call('ZREM', P .. 'onceDue', key) end
end
turn.touched = #due > 0
local soonest = call('ZRANGE', P .. 'onceDue', 0, 0, 'WITHSCORES')[2]
return turn.close({ soonest and int(math.max(0, tonumber(soonest) - turn.lease)) or '' })
