-- New tasks, in two passes: first every check, then every write (a script that fails half way is not rolled back).
--
-- A caller whose reply was lost asks again under the same task id, or under the same key: it must find the task it made
-- and not make another. So the id is looked up before anything else, even before the queue's bound.
-- @include admission
-- @include kinds
-- @include memory-short
local puts = { items = {}, results = {} }

-- Groups and items stand in ARGV from `at`: number of groups, each queue, kind, tenant, priority; number of items, each
-- group, task, tail of the head (maxAttempts … members), options ('' or delayMs,runAt,startByMs,deadlineMs,key).
function puts.read(at)
  local groups, number = {}, tonumber(ARGV[at])
  at = at + 1
  for i = 1, number do
    groups[i] = { queue = ARGV[at], kind = ARGV[at + 1], tenant = ARGV[at + 2], priority = tonumber(ARGV[at + 3]) }
    groups[i].lane = laneOf(ARGV[at], ARGV[at + 1], ARGV[at + 2])
    groups[i].lane.queue.groups = (groups[i].lane.queue.groups or 0) + 1
    groups[i].head = concat({ ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3] }, '\0') .. '\0'
    at = at + 4
  end
  number = tonumber(ARGV[at])
  at = at + 1
  for i = 1, number do
    local item = { group = groups[tonumber(ARGV[at])], id = ARGV[at + 1], tail = ARGV[at + 2], key = '' }
    local options = ARGV[at + 3]
    if options ~= '' then
      local delay, runAt, startBy, deadline, key = string.match(options, '^(%d*),(%d*),(%d*),(%d*),(.*)$')
      local due = delay ~= '' and turn.now + tonumber(delay) or tonumber(runAt)
      item.due = due and due > turn.now and due or nil
      item.startBy = startBy ~= '' and turn.now + tonumber(startBy) or nil
      item.deadline = deadline ~= '' and turn.now + tonumber(deadline) or nil
      item.key = key
    end
    puts.items[i] = item
    at = at + 4
  end
  return at
end

local function payloadOf(text)
  local bytes = string.match(text, '^%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z(%d+)%z')
  return string.sub(text, -tonumber(bytes))
end
local function payloadOfTail(tail)
  local bytes = string.match(tail, '^%Z*%z%Z*%z%Z*%z%Z*%z%Z*%z(%d+)%z')
  return string.sub(tail, -tonumber(bytes))
end
local function stateOf(id)
  local packed = call('GET', P .. 'run:' .. id)
  return packed and cmsgpack.unpack(packed)[STATE] or 'ready'
end

-- The task that has the key, unless its window is over although no sweep has seen that yet.
local function keyHolder(queue, key)
  local id = call('HGET', P .. 'keys:' .. queue, key)
  if not id then return nil end
  local packed = call('GET', P .. 'run:' .. id)
  local run = packed and cmsgpack.unpack(packed)
  if run and run[STATE] == 'completed' then
    local ends = call('ZSCORE', P .. 'windowed:' .. queue, id)
    if not ends or tonumber(ends) <= turn.now then return nil, id, run end
  end
  if call('EXISTS', P .. 'task:' .. id) == 0 then return nil end
  return id
end

local function checkId(item, existing, planned)
  if planned[item.id] then
    local twin = planned[item.id]
    if twin.group.queue == item.group.queue and payloadOfTail(twin.tail) == payloadOfTail(item.tail) then
      return '=' .. (twin.due and 'scheduled' or 'ready') .. ' ' .. item.id
    end
    return '!CONFLICT {"message":"the request names this task id twice, with different tasks"}'
  end
  if not existing then return nil end
  if parseHead(item.id, existing).queue == item.group.queue and payloadOf(existing) == payloadOfTail(item.tail) then
    return '=' .. stateOf(item.id) .. ' ' .. item.id
  end
  return '!CONFLICT {"message":"another task has this id"}'
end

local function checkKey(item, plannedKeys)
  if item.key == '' then return nil end
  local slot = item.group.queue .. '\0' .. item.key
  local twin = plannedKeys[slot]
  if twin then
    if payloadOfTail(twin.tail) == payloadOfTail(item.tail) then
      return '=' .. (twin.due and 'scheduled' or 'ready') .. ' ' .. twin.id
    end
    return '!KEY_CONFLICT {"task":' .. json(twin.id) .. '}'
  end
  local id, stale, staleRun = keyHolder(item.group.queue, item.key)
  if id then
    if payloadOf(call('GET', P .. 'task:' .. id)) == payloadOfTail(item.tail) then return '=' .. stateOf(id) .. ' ' .. id end
    return '!KEY_CONFLICT {"task":' .. json(id) .. '}'
  end
  item.stale, item.staleRun, item.slot = stale, staleRun, slot
  return nil
end

local depths = {}
local function depthOf(queue)
  if not depths[queue] then
    depths[queue] = call('ZCARD', P .. 'waiting:' .. queue) + call('ZCARD', P .. 'blocked:' .. queue) +
      call('ZCARD', P .. 'scheduled:' .. queue)
  end
  return depths[queue]
end

local function checkRoom(item, kindsMax)
  local queue, kind = item.group.queue, item.group.kind
  local known = queueOf(queue)
  if memoryIsShort() then
    return '!OVERLOADED {"message":"Redis is near its memory limit","scope":"memory","afterMs":1000}'
  end
  if known.maxDepth and depthOf(queue) >= known.maxDepth then
    return fmt('!OVERLOADED {"message":"the queue is at its depth","scope":"queue","depth":%d,"maxDepth":%d,"afterMs":1000}', depths[queue],
      known.maxDepth)
  end
  local refusal = known.admission and admission.check(known, item.group.priority)
  return refusal or kindRefused(queue, kind, kindsMax)
end

-- First pass. Answers true if no item was refused; results[i] is set for refused and for deduplicated ones.
function puts.check(kindsMax)
  local names, planned, plannedKeys, clean = {}, {}, {}, true
  for i, item in ipairs(puts.items) do names[i] = P .. 'task:' .. item.id end
  local existing = #names > 0 and call('MGET', unpack(names)) or {}
  for i, item in ipairs(puts.items) do
    local result = checkId(item, existing[i], planned) or checkKey(item, plannedKeys) or checkRoom(item, kindsMax)
    if result then
      puts.results[i] = result
      if string.sub(result, 1, 1) == '!' then clean = false end
    else
      planned[item.id] = item
      if item.slot then plannedKeys[item.slot] = item end
      if depths[item.group.queue] then depths[item.group.queue] = depths[item.group.queue] + 1 end
      if not item.due and queueOf(item.group.queue).admission then admission.took(queueOf(item.group.queue)) end
    end
  end
  return clean
end

local function write(item, handOver)
  local group = item.group
  local head = { id = item.id, at = turn.now, queue = group.queue, kind = group.kind, tenant = group.tenant,
    priority = group.priority, key = item.key, startBy = item.startBy, deadline = item.deadline, lane = group.lane }
  put('task:' .. item.id, turn.nowText .. '\0' .. (item.deadline and int(item.deadline) or '') .. '\0' ..
    (item.startBy and int(item.startBy) or '') .. '\0' .. group.head .. item.tail)
  if item.startBy then add(P .. 'timers', int(item.startBy), 's' .. item.id) end
  if item.deadline then add(P .. 'timers', int(item.deadline), 'd' .. item.id) end
  if item.stale then
    -- The key's last task is past its window: it is an ordinary completed task from now on.
    remove(P .. 'windowed:' .. group.queue, item.stale)
    add(P .. 'completed:' .. group.queue, int(item.staleRun[ENDED]), item.stale)
  end
  if item.key ~= '' then call('HSET', P .. 'keys:' .. group.queue, item.key, item.id) end
  unfinished(head, 1)
  rate(group.queue, 'e')
  local known = group.lane.queue
  known.moved = true
  if item.due then
    local run = newRun(head, 'scheduled', false)
    toScheduled(head, run, item.due)
    save(item.id, run)
    tell('task.enqueued', head, ',"priority":' .. digits[group.priority], ',"state":"scheduled","runAt":"' .. iso(item.due) .. '"')
    return 'scheduled'
  end
  tell('task.enqueued', head, ',"priority":', digits[group.priority], ',"state":"ready"')
  local score = place(known, group.priority)
  if not (handOver and handOver(head, item.tail, score)) then toReady(head, score) end
  return 'ready'
end

-- Second pass: what passed the first is written, and where `handOver` finds somebody for it, given on. One text an item.
function puts.write(handOver)
  for i, item in ipairs(puts.items) do
    puts.results[i] = puts.results[i] or write(item, handOver)
  end
  return puts.results
end

-- What producers are told of the queues they put into: rows { queue, level, delay or '', 1 where admission is on }. What
-- comes last of a queue counts: its depth goes before its level, the memory before both.
function puts.pressure()
  local rows = admission.close()
  for queue, depth in pairs(depths) do
    local max = queueOf(queue).maxDepth
    -- What went straight to a worker is not in the way of anybody; producers that pause by advice go on pausing.
    if max and depth >= max and admission.depth(queue) + call('ZCARD', P .. 'scheduled:' .. queue) >= max then
      local advised = queueOf(queue).admission
      rows[#rows + 1] = { queue, 3, advised and 1000 or '', advised and 1 or 0 }
    end
  end
  if memoryIsShort() then
    local met = {}
    for _, item in ipairs(puts.items) do met[item.group.queue] = true end
    for queue in pairs(met) do rows[#rows + 1] = { queue, 3, 1000, queueOf(queue).admission and 1 or 0 } end
  end
  return rows
end
