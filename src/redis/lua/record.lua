-- A task as it is stored. Two records, so that what was asked for (with the payload) is
-- written once however often the task moves:
--   task:<id>  text, \0 between: enqueuedAt, deadlineAt, startByAt, queue, kind, tenant, priority, maxAttempts,
--              timeoutMs, leaseMs, backoff, key, bytes of the payload, then the JSON members kind, metadata,
--              traceparent, payload as they go into a `tasks` line. Names hold no control characters.
--   run:<id>   cmsgpack list, see places.lua. Absent while the task is fresh and ready.
-- @include session
-- @include places

local BANDS = { [0] = 'background', 'low', 'normal', 'high', 'critical' }
local function band(priority)
  return BANDS[priority >= 100 and 4 or priority >= 75 and 3 or priority >= 50 and 2 or priority >= 25 and 1 or 0]
end

local task = {}

-- A run repeats what every later step needs of the head, so that a completion never reads the payload again.
local function newRun(head, state, score)
  local run = { state, 0, false, false, false, 0, 0, score, false, head.at, head.queue, head.tenant, head.kind, head.key,
    head.priority, '', false }
  if head.startBy then run[TIMERS] = run[TIMERS] .. 's' end
  if head.deadline then run[TIMERS] = run[TIMERS] .. 'd' end
  return run
end

local function parseHead(id, text)
  local at, deadline, startBy, queue, kind, tenant, priority, attempts, timeout, lease, backoff, key, bytes, from =
    struct.unpack('sssssssssssss', text)
  return { id = id, at = tonumber(at), deadline = tonumber(deadline), startBy = tonumber(startBy), queue = queue,
    kind = kind, tenant = tenant, priority = tonumber(priority), attempts = tonumber(attempts),
    timeout = tonumber(timeout), lease = tonumber(lease), backoff = backoff, key = key, bytes = tonumber(bytes),
    members = string.sub(text, from) }
end

local function joinHead(head)
  return concat({ int(head.at), head.deadline and int(head.deadline) or '', head.startBy and int(head.startBy) or '',
    head.queue, head.kind, head.tenant, head.priority, head.attempts or '', head.timeout or '', head.lease or '',
    head.backoff, head.key, head.bytes, head.members }, '\0')
end

-- The head without its payload: names, instants and limits take less than 1,300 bytes, a payload up to 256 KiB.
function task.header(id)
  local text = call('GETRANGE', P .. 'task:' .. id, 0, 1500)
  return text ~= '' and parseHead(id, text)
end

-- What a run knows of its head: enough for events, counters and sets.
function task.ofRun(id, run)
  return { id = id, queue = run[QUEUE], tenant = run[TENANT], kind = run[KIND], key = run[KEY], priority = run[PRIORITY],
    at = run[ENQUEUED] }
end

-- Runs of `ids`, as a map; false where there is none. One command, whatever the number.
function task.runs(ids)
  local names, runs = {}, {}
  for i, id in ipairs(ids) do names[i] = P .. 'run:' .. id end
  local found = #ids > 0 and call('MGET', unpack(names)) or {}
  for i, id in ipairs(ids) do runs[id] = runs[id] or (found[i] and cmsgpack.unpack(found[i])) end
  return runs
end
