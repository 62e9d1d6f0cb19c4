#!lua flags=allow-oom
-- Scheduled tasks that have come due become ready, and pauses that have run out end. `seq`, the place in the queue, is
-- given when a delayed task first falls due; one that waited for its back-off keeps the place it had. Equal instants keep
-- their order. At most 200 tasks a call. Answers what is due next (milliseconds from now, or '') and whether more is due.
-- @include finish
local left, names = 200, call('ZRANGEBYSCORE', P .. 'wake', '-inf', int(turn.now), 'LIMIT', 0, 20)
for _, queue in ipairs(names) do
  local known = queueOf(queue)
  local ends = tonumber(call('HGET', P .. 'queue:' .. queue, 'pausedUntil') or false)
  if ends and ends <= turn.now then
    call('HDEL', P .. 'queue:' .. queue, 'paused', 'pausedUntil')
    emit('queue.unpaused', known.json, '{"queue":' .. known.json .. '}')
    ends = nil
  end
  local due = left > 0 and call('ZRANGEBYSCORE', P .. 'scheduled:' .. queue, '-inf', int(turn.now), 'LIMIT', 0, left) or {}
  local ids = {}
  for i, member in ipairs(due) do ids[i] = string.sub(member, 17) end
  local runs = task.runs(ids)
  for i, id in ipairs(ids) do
    local run = runs[id]
    if run then
      local head, dueAt = task.ofRun(id, run), run[DUE]
      fromScheduled(head, run)
      -- How long it has been ready counts from when it was due.
      run[STATE], run[DUE] = 'ready', dueAt
      if not run[SCORE] then run[SCORE] = place(known, head.priority) end
      toReady(head, run[SCORE])
      save(id, run)
      tell('task.ready', head, '')
    else remove(P .. 'scheduled:' .. queue, due[i]) end
  end
  left = left - #ids
  task.flush()
  local first = call('ZRANGE', P .. 'scheduled:' .. queue, 0, 0, 'WITHSCORES')[2]
  local soonest = math.min(tonumber(first or 1e15), ends or 1e15)
  if soonest < 1e15 then call('ZADD', P .. 'wake', int(soonest), queue) else call('ZREM', P .. 'wake', queue) end
end
local soonest = call('ZRANGE', P .. 'wake', 0, 0, 'WITHSCORES')[2]
turn.touched = #names > 0
return turn.close({ soonest and int(math.max(0, tonumber(soonest) - turn.now)) or '' })
