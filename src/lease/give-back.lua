#!lua flags=allow-oom
-- Holdings of sessions that have ended, and work of sessions whose socket stayed broken past their grace. At most 100 a
-- call, one event each. The ended session is forgotten with its last holding. Args: limit.
-- @include finish
local left, more = tonumber(limit), 0

local function giveTasks(id)
  local held = call('ZRANGE', P .. 'held:' .. id, 0, left - 1)
  for _, member in ipairs(held) do
    local taskId = string.sub(member, 2)
    local run = string.sub(member, 1, 1) == 't' and task.runs({ taskId })[taskId]
    if run and run[STATE] == 'active' and run[SESSION] == id then
      giveBack(task.header(taskId), run, 'sessionLost', { refundsMax = 0 })
    else remove(P .. 'held:' .. id, member) end
  end
  left = left - #held
  task.flush()
  return #held
end

for _, id in ipairs(call('ZRANGE', P .. 'ending', 0, 19)) do
  if left > 0 then giveTasks(id) end
  if call('EXISTS', P .. 'held:' .. id) == 0 then
    call('ZREM', P .. 'ending', id)
    call('DEL', P .. 'session:' .. id)
  else more = 1 end
end
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'grace', '-inf', int(turn.lease), 'LIMIT', 0, 20)) do
  if left > 0 then giveTasks(id) end
  if call('EXISTS', P .. 'held:' .. id) == 0 then call('ZREM', P .. 'grace', id) else more = 1 end
end
if call('ZCARD', P .. 'ending') > 0 then more = 1 end
local soonest = call('ZRANGE', P .. 'grace', 0, 0, 'WITHSCORES')[2]
return turn.close({ more, soonest and int(math.max(0, tonumber(soonest) - turn.lease)) or '' })
