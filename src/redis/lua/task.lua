-- A task as it is stored, and the sets it stands in. Two records, so that what was asked for (with the payload) is
-- written once however often the task moves:
--   task:<id>  text, \0 between: enqueuedAt, deadlineAt, startByAt, queue, kind, tenant, priority, maxAttempts,
--              timeoutMs, leaseMs, backoff, key, bytes of the payload, then the JSON members kind, metadata,
--              traceparent, payload as they go into a `tasks` line. Names hold no control characters.
--   run:<id>   cmsgpack list, below. Absent while the task is fresh and ready.
-- Sets and counters are collected while a script runs and written once at its end, one command a key: a script of 200
-- items then costs little more than one of 20.
-- @include session
local STATE, FENCE, SESSION, WORKER, AGENT, ATTEMPT, REFUNDS, SCORE = 1, 2, 3, 4, 5, 6, 7, 8
local STARTED, ENDED, DUE, DUENO, LEASE, TIMEOUT, TIMERS, ENDING = 9, 10, 11, 12, 13, 14, 15, 16
local RESULT, FAULT, PROGRESS, SAVED, HISTORY = 17, 18, 19, 20, 21
local QUEUE, TENANT, KIND, KEY, PRIORITY, ENQUEUED = 22, 23, 24, 25, 26, 27
local FIELDS = 27

local BANDS = { [0] = 'background', 'low', 'normal', 'high', 'critical' }
local function band(priority)
  return BANDS[priority >= 100 and 4 or priority >= 75 and 3 or priority >= 50 and 2 or priority >= 25 and 1 or 0]
end

local task = {}

-- A run repeats what every later step needs of the head, so that a completion never reads the payload again.
local function newRun(head, state, score)
  local run = {}
  for i = 1, FIELDS do run[i] = false end
  run[STATE], run[FENCE], run[ATTEMPT], run[REFUNDS], run[SCORE], run[TIMERS] = state, 0, 0, 0, score, ''
  run[QUEUE], run[TENANT], run[KIND], run[KEY] = head.queue, head.tenant, head.kind, head.key
  run[PRIORITY], run[ENQUEUED] = head.priority, head.at
  if head.startBy then run[TIMERS] = run[TIMERS] .. 's' end
  if head.deadline then run[TIMERS] = run[TIMERS] .. 'd' end
  return run
end

local function parseHead(id, text)
  local at, deadline, startBy, queue, kind, tenant, priority, attempts, timeout, lease, backoff, key, bytes, members =
    string.match(text, '^(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(%Z*)%z(.*)$')
  return { id = id, at = tonumber(at), deadline = tonumber(deadline), startBy = tonumber(startBy), queue = queue,
    kind = kind, tenant = tenant, priority = tonumber(priority), attempts = tonumber(attempts),
    timeout = tonumber(timeout), lease = tonumber(lease), backoff = backoff, key = key, bytes = tonumber(bytes),
    members = members, text = text }
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

-- Queues: what scripts need of `queue:<q>`, read once a script.
local queues = {}
local function queueOf(name)
  local known = queues[name]
  if known then return known end
  local row = call('HMGET', P .. 'queue:' .. name, 'seq', 'vtime', 'paused', 'pausedUntil', 'maxDepth', 'maxAttempts',
    'timeoutMs', 'leaseMs', 'backoff', 'keyWindowMs', 'draining')
  known = { name = name, json = json(name), seq = tonumber(row[1] or 0), vtime = tonumber(row[2] or 0),
    maxDepth = tonumber(row[5]), attempts = tonumber(row[6] or 3), timeout = tonumber(row[7]), lease = tonumber(row[8]),
    backoff = row[9] or 'exponential,1000,60000,full', keyWindow = tonumber(row[10] or 3600000) }
  local untilMs = tonumber(row[4])
  known.paused = row[3] and not (untilMs and untilMs <= turn.now)
  queues[name] = known
  return known
end

-- Collected writes: adds[key] = {score, member, …}, removes[key] = {member, …}, counts[key][field] = delta.
local adds, removes, counts, shares, strings, gone = {}, {}, {}, {}, {}, {}
local function add(key, score, member)
  local list = adds[key]
  if not list then list = {}; adds[key] = list end
  list[#list + 1] = score
  list[#list + 1] = member
end
local function remove(key, member)
  local list = removes[key]
  if not list then list = {}; removes[key] = list end
  list[#list + 1] = member
end
local function bump(map, key, field, delta)
  local row = map[key]
  if not row then row = {}; map[key] = row end
  row[field] = (row[field] or 0) + delta
end
local function put(name, text) strings[#strings + 1] = P .. name; strings[#strings + 1] = text end

local cached = {}
-- JSON of a name that comes back many times in a script (queue, kind, tenant); task ids do not.
local function name(text)
  local known = cached[text]
  if not known then known = json(text); cached[text] = known end
  return known
end

-- `"queue":…,"task":…,"tenant":…[,"kind":…]`: the attributes every task event carries.
local function attributes(head)
  if head.attributes then return head.attributes end
  head.json = head.json or json(head.id)
  head.attributes = '"queue":' .. name(head.queue) .. ',"task":' .. head.json .. ',"tenant":' .. name(head.tenant) ..
    (head.kind ~= '' and ',"kind":' .. name(head.kind) or '')
  return head.attributes
end

local function tell(type, head, more)
  local attrs = attributes(head)
  emit(type, head.json, '{' .. attrs .. (more or '') .. '}')
end

-- JSON of a client as it may stand in an event. Rows of the log are parted by tabs: the only control characters that
-- JSON has are blanks between its words.
local function oneRow(text) return (string.gsub(text, '%c', ' ')) end

local function lanesKey(queue, kind) return P .. 'tenants:' .. #queue .. ':' .. queue .. ':' .. kind end
local function laneKey(queue, kind, tenant)
  return P .. 'lane:' .. #queue .. ':' .. #kind .. ':' .. queue .. ':' .. kind .. ':' .. tenant
end

-- Rates: finished and enqueued tasks by slot of 5 s.
local function rate(queue, what, delta)
  bump(counts, P .. 'counts:' .. queue, 'r' .. what .. ':' .. floor(turn.now / 5000), delta)
end

-- A task becomes ready or stops being it: its lane, its place in the queue, its tenant's turn, the counters.
local joins = {}
local function waits(head, delta)
  local counters = P .. 'counts:' .. head.queue
  bump(counts, counters, 'w:' .. head.kind, delta)
  bump(counts, counters, 'b:' .. band(head.priority), delta)
  bump(shares, P .. 'share:' .. head.queue, head.tenant, delta)
end
local function toReady(head, score)
  add(laneKey(head.queue, head.kind, head.tenant), int(score), head.id)
  add(P .. 'waiting:' .. head.queue, int(score % 70368744177664), head.id)
  joins[head.queue .. '\0' .. head.kind .. '\0' .. head.tenant] = { head.queue, head.kind, head.tenant }
  waits(head, 1)
end
local leaves = {}
local function fromReady(head)
  remove(laneKey(head.queue, head.kind, head.tenant), head.id)
  remove(P .. 'waiting:' .. head.queue, head.id)
  leaves[head.queue .. '\0' .. head.kind .. '\0' .. head.tenant] = { head.queue, head.kind, head.tenant }
  waits(head, -1)
end

-- A new place at the end of the queue: seq is what FIFO means within a tenant and a priority.
local function place(queue, priority)
  queue.seq = queue.seq + 1
  queue.moved = true
  return (100 - priority) * 70368744177664 + queue.seq
end

local dueNo
local function toScheduled(head, run, dueAt)
  dueNo = (dueNo or tonumber(call('HGET', KEYS[1], 'due') or 0)) + 1
  run[STATE], run[DUE], run[DUENO] = 'scheduled', dueAt, dueNo
  add(P .. 'scheduled:' .. head.queue, int(dueAt), fmt('%016.0f', dueNo) .. head.id)
  add(P .. 'wake', int(dueAt), head.queue)
end
local function fromScheduled(head, run)
  remove(P .. 'scheduled:' .. head.queue, fmt('%016.0f', run[DUENO]) .. head.id)
  run[DUE], run[DUENO] = false, false
end

local function unfinished(head, delta) bump(shares, P .. 'lanes:' .. head.queue, head.kind, delta) end
local function active(head, run, delta)
  bump(counts, P .. 'counts:' .. head.queue, 'a:' .. head.kind, delta)
  bump(shares, P .. 'busy:' .. head.queue, head.tenant, delta)
  if delta > 0 then
    add(P .. 'active:' .. head.queue, int(run[STARTED]), head.id)
    add(P .. 'held:' .. run[SESSION], int(run[STARTED]), 't' .. head.id)
  else
    remove(P .. 'active:' .. head.queue, head.id)
    remove(P .. 'held:' .. run[SESSION], 't' .. head.id)
  end
end

-- `timers` names the clocks that run for a task: s startBy, d deadline (Redis' time); l lease, t timeout, g grace (lease
-- clock). They are remembered in the run, so that a task without any costs nothing.
local function arm(run, id, letter, at)
  if not string.find(run[TIMERS], letter, 1, true) then run[TIMERS] = run[TIMERS] .. letter end
  add(P .. ((letter == 's' or letter == 'd') and 'timers' or 'leases'), int(at), letter .. id)
end
local function disarm(run, id, letters)
  if run[TIMERS] == '' then return end
  local left = ''
  for letter in string.gmatch(run[TIMERS], '.') do
    if string.find(letters, letter, 1, true) then
      remove(P .. ((letter == 's' or letter == 'd') and 'timers' or 'leases'), letter .. id)
    else left = left .. letter end
  end
  run[TIMERS] = left
end

local function save(id, run) put('run:' .. id, cmsgpack.pack(run)) end

local function flushShares()
  for key, row in pairs(shares) do
    for member, delta in pairs(row) do
      if delta ~= 0 and tonumber(call('ZINCRBY', key, delta, member)) <= 0 then call('ZREM', key, member) end
    end
  end
  for key, row in pairs(counts) do
    for field, delta in pairs(row) do
      if delta ~= 0 and tonumber(call('HINCRBY', key, field, delta)) <= 0 then call('HDEL', key, field) end
    end
  end
  shares, counts = {}, {}
end

-- Tenants: a newcomer starts at the queue's present time, an idle one has earned nothing.
local function flushTenants()
  for _, row in pairs(joins) do
    local queue, kind, tenant = row[1], row[2], row[3]
    local present = queueOf(queue).vtime
    local own = tonumber(call('ZSCORE', P .. 'vtime:' .. queue, tenant) or -1)
    if own < present then
      own = present
      call('ZADD', P .. 'vtime:' .. queue, own, tenant)
    end
    call('ZADD', lanesKey(queue, kind), own, tenant)
  end
  for _, row in pairs(leaves) do
    if call('EXISTS', laneKey(row[1], row[2], row[3])) == 0 then call('ZREM', lanesKey(row[1], row[2]), row[3]) end
  end
  joins, leaves = {}, {}
end

-- Everything collected, written. Must run before a claim looks at the lanes, and before turn.close.
function task.flush()
  if #strings > 0 then call('MSET', unpack(strings)) end
  for key, list in pairs(removes) do call('ZREM', key, unpack(list)) end
  for key, list in pairs(adds) do
    if key == P .. 'wake' then call('ZADD', key, 'LT', unpack(list)) else call('ZADD', key, unpack(list)) end
  end
  if #gone > 0 then call('DEL', unpack(gone)) end
  strings, removes, adds, gone = {}, {}, {}, {}
  flushTenants()
  flushShares()
  for queue, known in pairs(queues) do
    if known.moved then
      call('HSET', P .. 'queue:' .. queue, 'seq', int(known.seq))
      call('ZADD', P .. 'queues', 0, queue)
      known.moved = false
    end
  end
  if dueNo then call('HSET', KEYS[1], 'due', int(dueNo)); dueNo = nil end
end
