#!lua flags=allow-oom
-- An operator takes a task from its holder: charged, back at once in its old place. Args: id, reason (JSON).
-- @include finish
local run = task.runs({ id })[id]
local head = run and run[STATE] == 'active' and task.header(id)
if not head then return refuse('NOT_FOUND') end
emit('lease.revoked', json('task:' .. id), '{"lease":' .. json('task:' .. id) .. ',"task":' .. json(id) .. holderOf(run) ..
  ',"fence":' .. int(run[FENCE]) .. ',"reason":' .. reason .. '}')
giveBack(head, run, 'revoked', { refundsMax = 0 })
task.flush()
return turn.close('ok')
