#!lua flags=allow-oom
-- Finished tasks of one queue are kept by age and by count. Args: queue, completedAgeMs, completedCount, deadAgeMs,
-- deadCount (the defaults; the queue's own `keep` goes first). At most 200 removals a call; answers whether more is left.
-- @include finish
local own = call('HGET', P .. 'queue:' .. queue, 'keep')
local ages = { completed = tonumber(completedAgeMs), dead = tonumber(deadAgeMs) }
local most = { completed = tonumber(completedCount), dead = tonumber(deadCount) }
if own then
  ages.completed, most.completed, ages.dead, most.dead = string.match(own, '^(%d+),(%d+),(%d+),(%d+)$')
  ages.completed, most.completed = tonumber(ages.completed), tonumber(most.completed)
  ages.dead, most.dead = tonumber(ages.dead), tonumber(most.dead)
end
local left = 200

-- Key windows that are over: the key is free, the task an ordinary completed one.
local over = call('ZRANGEBYSCORE', P .. 'windowed:' .. queue, '-inf', int(turn.now), 'LIMIT', 0, 200)
for _, id in ipairs(over) do
  local run = task.runs({ id })[id]
  remove(P .. 'windowed:' .. queue, id)
  if run then
    freeKey(task.ofRun(id, run))
    add(P .. 'completed:' .. queue, int(run[ENDED]), id)
  end
end
task.flush()

local function drop(set, ids, reason)
  for _, id in ipairs(ids) do
    local head = task.header(id)
    remove(P .. set .. ':' .. queue, id)
    gone[#gone + 1], gone[#gone + 2] = P .. 'task:' .. id, P .. 'run:' .. id
    if head then
      freeKey(head)
      tell('task.removed', head, ',"state":"' .. set .. '","reason":"' .. reason .. '"')
    end
    left = left - 1
  end
  task.flush()
end

local function trim(sets, age, count)
  for _, set in ipairs(sets) do
    drop(set, left > 0 and call('ZRANGEBYSCORE', P .. set .. ':' .. queue, '-inf', int(turn.now - age), 'LIMIT', 0, left) or {}, 'retention')
  end
  local over = -count
  for _, set in ipairs(sets) do over = over + call('ZCARD', P .. set .. ':' .. queue) end
  while over > 0 and left > 0 do
    local oldest, oldestAt
    for _, set in ipairs(sets) do
      local at = call('ZRANGE', P .. set .. ':' .. queue, 0, 0, 'WITHSCORES')[2]
      if at and (not oldestAt or tonumber(at) < oldestAt) then oldest, oldestAt = set, tonumber(at) end
    end
    if not oldest then break end
    local take = #sets == 1 and math.min(over, left) or 1
    drop(oldest, call('ZRANGE', P .. oldest .. ':' .. queue, 0, take - 1), 'overflow')
    over = over - take
  end
  return over > 0
end

local more = trim({ 'completed', 'cancelled' }, ages.completed, most.completed)
more = trim({ 'dead', 'expired' }, ages.dead, most.dead) or more
return turn.close({ (more or left <= 0 or #over == 200) and 1 or 0 })
