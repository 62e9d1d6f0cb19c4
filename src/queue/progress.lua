#!lua flags=allow-oom
-- A sign of life with a message. It renews the task's own lease if it has one; a holder that was fenced out is told.
-- Args: id, fence, caller, binding, progress, saved.
-- @include done
local item = { id = id, fence = tonumber(fence), session = caller, binding = binding }
local run = task.runs({ id })[id]
local held, refusal = heldBy(item, run)
if not held then
  task.flush()
  return turn.close({ refusal })
end
held[PROGRESS] = progress
if saved ~= '' then held[SAVED] = saved end
if held[LEASE] then arm(held, id, 'l', turn.lease + held[LEASE]) end
save(id, held)
local head = task.ofRun(id, held)
tell('task.progressed', head, holderOf(held) .. ',"attempt":' .. held[ATTEMPT] .. ',"fence":' .. int(held[FENCE]) ..
  (#progress <= 1024 and ',"progress":' .. oneRow(progress) or ''))
task.flush()
return turn.close({ 'ok' })
