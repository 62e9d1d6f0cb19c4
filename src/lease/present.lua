#!lua flags=allow-oom
-- A resumed session has its socket: the grace that the resume gave it is over, and its waits stand in their queues again,
-- under their old tickets. Until now it was passed over, so that whatever it is granted comes after the reply that told it
-- what it held. Args: id, binding, cursor. Answers where to go on ('' when done), and whether queues are left to go on with.
-- @include lock-grant
-- @include limit-wait
-- @include pages
if not speaks(id, binding) then return turn.close({ '', 0 }) end
call('ZREM', P .. 'grace', id)
call('HDEL', P .. 'session:' .. id, 'away')
session(id).away = false
local rows = pageOf(P .. 'held:' .. id, cursor ~= '' and cursor or int(bands.kept) .. ' ', 200)

local unpark = {}
function unpark.l(grantId)
  local grant = lock.load(grantId)
  if grant and grant.state == 'waiting' and grant.parked then lock.unpark(grantId, grant) end
end
function unpark.r(reservation)
  local r = limit.load(reservation)
  if r and r.state == 'waiting' and r.parked then limit.unpark(reservation, r) end
end
for i = 1, #rows, 2 do
  local letter = string.sub(rows[i], 1, 1)
  if unpark[letter] then unpark[letter](string.sub(rows[i], 2)) end
end
lock.pump()
lock.flush()
limit.flush()
turn.touched = true
return turn.close({ #rows == 400 and rows[400] .. ' ' .. rows[399] or '', lock.left and 1 or 0 })
