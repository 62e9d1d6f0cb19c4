-- The sets and counters a task stands in (redis/lua/record.lua is the task itself). They are collected while a script
-- runs and written once at its end, one command a key: a script of 200 items then costs little more than one of 20.
-- @include record
-- Queues: what scripts need of `queue:<q>`, read once a script.
local queues = {}
local function queueOf(name)
  local known = queues[name]
  if known then return known end
  local row = call('HMGET', P .. 'queue:' .. name, 'seq', 'vtime', 'paused', 'pausedUntil', 'maxDepth', 'maxAttempts',
    'timeoutMs', 'leaseMs', 'backoff', 'keyWindowMs', 'admission')
  known = { name = name, json = json(name), waiting = P .. 'waiting:' .. name, active = P .. 'active:' .. name,
    completed = P .. 'completed:' .. name, rates = {}, seq = tonumber(row[1] or 0), vtime = tonumber(row[2] or 0),
    maxDepth = tonumber(row[5]), attempts = tonumber(row[6] or 3), timeout = tonumber(row[7]), lease = tonumber(row[8]),
    backoff = row[9] or 'exponential,1000,60000,full', keyWindow = tonumber(row[10] or 3600000),
    admission = row[11] ~= '' and row[11] }
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

-- JSON of a client as it may stand in an event. Rows of the log are parted by tabs: the only control characters that
-- JSON has are blanks between its words.
local function oneRow(text) return (string.gsub(text, '[%z\1-\31]', ' ')) end

-- Numbers that come back many times in a script, as text.
local digits = setmetatable({}, { __index = function(known, number)
  known[number] = int(number)
  return known[number]
end })

local function lanesKey(queue, kind) return P .. 'tenants:' .. #queue .. ':' .. queue .. ':' .. kind end
local function laneKey(queue, kind, tenant)
  return P .. 'lane:' .. #queue .. ':' .. #kind .. ':' .. queue .. ':' .. kind .. ':' .. tenant
end

-- What the tasks of one queue, kind and tenant share: key and JSON, put together once a script, and how many of them the
-- script moved (waits, active, unfinished, by band). `joins` and `leaves`: tasks came to the lane, or went.
local lanes = {}
local function laneOf(queue, kind, tenant)
  local id = queue .. '\0' .. kind .. '\0' .. tenant
  local lane = lanes[id]
  if lane then return lane end
  local known = queueOf(queue)
  lane = { queue = known, kind = kind, tenant = tenant, key = laneKey(queue, kind, tenant), bands = {}, waits = 0,
    active = 0, unfinished = 0, before = '\t{"queue":' .. known.json .. ',"task":',
    after = ',"tenant":' .. name(tenant) .. (kind ~= '' and ',"kind":' .. name(kind) or '') }
  lanes[id] = lane
  return lane
end
local function laneFor(head)
  head.lane = head.lane or laneOf(head.queue, head.kind, head.tenant)
  return head.lane
end

-- An event of a task: `"queue":…,"task":…,"tenant":…[,"kind":…]` and what follows in up to three pieces.
local function tell(type, head, a, b, c)
  local lane = laneFor(head)
  head.json = head.json or json(head.id)
  emitRow(type, type .. '\t' .. head.json .. lane.before .. head.json .. lane.after .. (a or '') .. (b or '') .. (c or '') .. '}')
end

-- Rates: finished (c), failed (f) and enqueued (e) tasks by slot of 5 s.
local function rate(queue, what)
  local rates = queueOf(queue).rates
  rates[what] = (rates[what] or 0) + 1
end

-- A task becomes ready or stops being it: its lane, its place in the queue, its tenant's turn, the counters.
local function waits(head, delta)
  local lane, name = laneFor(head), band(head.priority)
  lane.waits = lane.waits + delta
  lane.bands[name] = (lane.bands[name] or 0) + delta
end
local function toReady(head, score)
  local lane = laneFor(head)
  add(lane.key, int(score), head.id)
  add(lane.queue.waiting, int(score % 70368744177664), head.id)
  lane.joins = true
  waits(head, 1)
end
local function fromReady(head)
  local lane = laneFor(head)
  remove(lane.key, head.id)
  remove(lane.queue.waiting, head.id)
  lane.leaves = true
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

local function unfinished(head, delta)
  local lane = laneFor(head)
  lane.unfinished = lane.unfinished + delta
end
local heldKeys = setmetatable({}, { __index = function(known, session)
  known[session] = P .. 'held:' .. session
  return known[session]
end })
local function active(head, run, delta)
  local lane = laneFor(head)
  lane.active = lane.active + delta
  if delta > 0 then
    add(lane.queue.active, digits[run[STARTED]], head.id)
    add(heldKeys[run[SESSION]], digits[run[STARTED]], 't' .. head.id)
  else
    remove(lane.queue.active, head.id)
    remove(heldKeys[run[SESSION]], 't' .. head.id)
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

local function save(id, run)
  -- 27 places; the first 17 are what newRun sets.
  local last = 27
  while last > 17 and not run[last] do
    run[last] = nil
    last = last - 1
  end
  -- A list with holes is packed as a map.
  for i = 18, last do run[i] = run[i] or false end
  put('run:' .. id, cmsgpack.pack(run))
end

-- Lanes into counters: `counts:` by kind and band, `lanes:` by kind, `share:` and `busy:` by tenant.
local function sumLanes()
  for _, lane in pairs(lanes) do
    local queue, kind, tenant = lane.queue.name, lane.kind, lane.tenant
    bump(counts, P .. 'counts:' .. queue, 'w:' .. kind, lane.waits)
    bump(counts, P .. 'counts:' .. queue, 'a:' .. kind, lane.active)
    for name, delta in pairs(lane.bands) do bump(counts, P .. 'counts:' .. queue, 'b:' .. name, delta) end
    bump(shares, P .. 'lanes:' .. queue, kind, lane.unfinished)
    bump(shares, P .. 'share:' .. queue, tenant, lane.waits)
    bump(shares, P .. 'busy:' .. queue, tenant, lane.active)
    lane.waits, lane.active, lane.unfinished, lane.bands = 0, 0, 0, {}
  end
  for queue, known in pairs(queues) do
    for what, delta in pairs(known.rates) do
      bump(counts, P .. 'counts:' .. queue, 'r' .. what .. ':' .. floor(turn.now / 5000), delta)
    end
    known.rates = {}
  end
end

local function flushShares()
  sumLanes()
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
  for _, lane in pairs(lanes) do
    local queue, kind, tenant = lane.queue.name, lane.kind, lane.tenant
    if lane.joins then
      local present = lane.queue.vtime
      local own = tonumber(call('ZSCORE', P .. 'vtime:' .. queue, tenant) or -1)
      if own < present then
        own = present
        call('ZADD', P .. 'vtime:' .. queue, own, tenant)
      end
      call('ZADD', lanesKey(queue, kind), own, tenant)
    end
    if lane.leaves and call('EXISTS', lane.key) == 0 then call('ZREM', lanesKey(queue, kind), tenant) end
    lane.joins, lane.leaves = nil, nil
  end
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
