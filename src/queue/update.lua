-- Changes what a task asked for while it has not ended. Args: id, priority, deadlineMs, startByMs, runAt, each '' for
-- unchanged. A running task has been claimed: when it starts can no longer be changed.
-- @include finish
local head = task.header(id)
if not head then return refuse('NOT_FOUND') end
local run = task.runs({ id })[id] or nil
local state = run and run[STATE] or 'ready'
if state ~= 'ready' and state ~= 'scheduled' and state ~= 'active' then
  return refuse('CONFLICT', '{"message":"the task has ended","state":"' .. state .. '"}')
end
if state == 'active' and (startByMs ~= '' or runAt ~= '') then
  return refuse('CONFLICT', '{"message":"the task is running: startByMs and runAt are past","state":"active"}')
end
head = parseHead(id, call('GET', P .. 'task:' .. id))
local score = run and run[SCORE] or (state == 'ready' and call('ZSCORE', laneKey(head.queue, head.kind, head.tenant), id))
score = tonumber(score or false)
local changed = ''
if state == 'ready' then fromReady(head) end
if priority ~= '' then
  head.priority = tonumber(priority)
  if score then score = (100 - head.priority) * 70368744177664 + score % 70368744177664 end
  changed = changed .. ',"priority":' .. priority
end
if startByMs ~= '' then
  head.startBy = turn.now + tonumber(startByMs)
  add(P .. 'timers', int(head.startBy), 's' .. id)
  changed = changed .. ',"startByAt":"' .. iso(head.startBy) .. '"'
end
if deadlineMs ~= '' then
  head.deadline = turn.now + tonumber(deadlineMs)
  add(P .. 'timers', int(head.deadline), 'd' .. id)
  changed = changed .. ',"deadlineAt":"' .. iso(head.deadline) .. '"'
end
run = run or newRun(head, state, score or false)
run[PRIORITY], run[SCORE] = head.priority, score or false
for letter, at in pairs({ s = head.startBy or false, d = head.deadline or false }) do
  if at and not string.find(run[TIMERS], letter, 1, true) and not (letter == 's' and state == 'active') then
    run[TIMERS] = run[TIMERS] .. letter
  end
end
local due = tonumber(runAt)
if state == 'scheduled' and (runAt ~= '') then fromScheduled(head, run) end
if state == 'ready' or runAt ~= '' then
  if due and due > turn.now then
    toScheduled(head, run, due)
    changed = changed .. ',"runAt":"' .. iso(due) .. '"'
  elseif state ~= 'active' then
    score = score or place(queueOf(head.queue), head.priority)
    run[STATE], run[SCORE] = 'ready', score
    toReady(head, score)
  end
end
put('task:' .. id, joinHead(head))
save(id, run)
tell('task.updated', head, changed .. ',"state":"' .. run[STATE] .. '"')
task.flush()
return turn.close(run[STATE])
