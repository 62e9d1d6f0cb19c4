#!lua flags=allow-oom
-- A waiting task is cancelled at once. A running one is asked to stop and has its grace: until then `complete` still
-- completes (the work is done, why throw it away), and every other end is `cancelled`. Args: id, reason (JSON or ''),
-- graceMs.
-- @include finish
local head = task.header(id)
if not head then return refuse('NOT_FOUND') end
local run = task.runs({ id })[id] or nil
local state = run and run[STATE] or 'ready'
if state == 'active' then
  if not run[ENDING] then
    run[ENDING] = 'cancel'
    arm(run, id, 'g', turn.lease + tonumber(graceMs))
    save(id, run)
    tell('task.cancelRequested', head, holderOf(run) .. ',"fence":' .. int(run[FENCE]) .. ',"graceMs":' .. graceMs ..
      ',"reason":"cancelled"' .. (reason ~= '' and ',"message":' .. reason or ''))
  end
elseif state == 'ready' or state == 'scheduled' or state == 'blocked' then
  if state == 'ready' then fromReady(head) else fromScheduled(head, run) end
  finish(head, run or newRun(head, 'ready', 0), 'cancelled', 'cancelled', reason ~= '' and ',"message":' .. reason or '')
  state = 'cancelled'
end
task.flush()
return turn.close(state)
