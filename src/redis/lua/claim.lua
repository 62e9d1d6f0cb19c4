-- Hands ready tasks to workers. The attempt is charged here, inside the claim: a task that kills its worker is counted
-- although nobody lives to report it.
--
-- Who is next: the tenant of lowest virtual time with a ready task in the worker's lanes, then that tenant's lowest
-- score. A start costs its tenant 1. The scores in `tenants:` may lag behind `vtime:` (a tenant that was served in
-- another lane); they are corrected when they come to the front, never searched.
-- @include finish
-- Bounds of one script: bytes of lines, tasks looked at, commands. `bite` is how many are picked at a time; it grows
-- while tasks are small, so that a script never reads many times what it may hand out.
local claims = { wants = {}, straight = {}, rows = {}, steps = 0, bytes = 0, tasks = 0, bite = 16, bytesMax = 1048576 }
local function spent() return claims.bytes >= claims.bytesMax or claims.tasks >= 200 or claims.steps >= 3000 end

-- One row of the reply, in four places of one list: Redis looks at every inner list for the names that special replies have.
local function answer(index, id, fence, line)
  local rows, at = claims.rows, #claims.rows
  rows[at + 1], rows[at + 2], rows[at + 3], rows[at + 4] = index, id, fence, line
end

-- Tenants at the front of `kinds`, by true virtual time: a list sorted by time, each with the lanes it is ready in.
local function frontTenants(queue, kinds, want)
  local found, order, names = {}, {}, {}
  for _, kind in ipairs(kinds) do
    local row = call('ZRANGE', lanesKey(queue, kind), 0, math.max(want, 8), 'WITHSCORES')
    claims.steps = claims.steps + 1
    for i = 1, #row, 2 do
      local entry = found[row[i]]
      if not entry then
        entry = { tenant = row[i], time = 0, lanes = {}, kinds = {} }
        found[row[i]] = entry
        order[#order + 1], names[#names + 1] = entry, row[i]
      end
      entry.kinds[#entry.kinds + 1] = kind
      entry.lanes[#entry.lanes + 1] = { kind, tonumber(row[i + 1]) }
    end
  end
  if #order == 0 then return order end
  local times = call('ZMSCORE', P .. 'vtime:' .. queue, unpack(names))
  for i, entry in ipairs(order) do
    entry.time = tonumber(times[i] or entry.lanes[1][2])
    for _, lane in ipairs(entry.lanes) do
      if lane[2] < entry.time then add(lanesKey(queue, lane[1]), int(entry.time), entry.tenant) end
    end
  end
  table.sort(order, function(a, b) return a.time < b.time or (a.time == b.time and a.tenant < b.tenant) end)
  return order
end

-- Pops up to `want` tasks of one tenant, lowest score first over its lanes.
local function popTasks(queue, entry, want, out)
  local taken = 0
  while taken < want and #entry.kinds > 0 do
    local best, at, count = nil, 1, want - taken
    if #entry.kinds > 1 then
      count = 1
      for i, kind in ipairs(entry.kinds) do
        local head = call('ZRANGE', laneKey(queue, kind, entry.tenant), 0, 0, 'WITHSCORES')
        claims.steps = claims.steps + 1
        if head[1] and (not best or tonumber(head[2]) < best) then best, at = tonumber(head[2]), i end
      end
    end
    local kind = entry.kinds[at]
    local lane = laneOf(queue, kind, entry.tenant)
    local popped = call('ZPOPMIN', lane.key, count)
    claims.steps, lane.leaves = claims.steps + 1, true
    for i = 1, #popped, 2 do
      out[#out + 1] = { popped[i], tonumber(popped[i + 1]), entry = entry, kind = kind, start = entry.time + taken }
      taken = taken + 1
    end
    if #popped / 2 < count then table.remove(entry.kinds, at) end
  end
  return taken
end

-- Picks up to `want` tasks in order. Served tenants come back one later: as times only grow, they line up in a second
-- queue that is sorted by itself, and the next tenant is the smaller of the two heads. Answers the tenants too.
local function pick(queue, kinds, want)
  local order, again, out, touched = frontTenants(queue, kinds, want), {}, {}, {}
  local a, b = 1, 1
  while #out < want and claims.steps < 3000 do
    local first, second = order[a], again[b]
    local entry
    if first and (not second or first.time <= second.time) then entry, a = first, a + 1
    elseif second then entry, b = second, b + 1
    else break end
    local other = math.min(order[a] and order[a].time or 1e15, again[b] and again[b].time or 1e15)
    local turns = math.min(want - #out, math.max(1, floor(other - entry.time) + 1))
    local taken = popTasks(queue, entry, turns, out)
    if taken > 0 then
      entry.time = entry.time + taken
      touched[entry.tenant] = entry
    end
    if #entry.kinds > 0 then again[#again + 1] = entry end
  end
  return out, touched
end

-- A picked task stays: its lane has it back under its score, and its tenant did not start it.
local function stay(queue, row)
  add(laneKey(queue, row.kind, row.entry.tenant), int(row[2]), row[1])
  row.entry.time = row.entry.time - 1
end

-- One task to one worker: the record, the sets, the event, and the line the agent will read.
local function handOut(want, head, run, score)
  local known, fence = queueOf(head.queue), nextFence()
  local fenceText = int(fence)
  local lease, timeout = head.lease or want.lease or known.lease, head.timeout or known.timeout
  if run then
    run[ENDED], run[DUE], run[DUENO] = false, false, false
    run[ENDING], run[LEASE], run[TIMEOUT] = false, false, false
  end
  run = run or newRun(head, 'active', score)
  run[STATE], run[FENCE], run[SCORE], run[STARTED], run[ATTEMPT] = 'active', fence, score, turn.now, run[ATTEMPT] + 1
  run[SESSION], run[WORKER], run[AGENT] = want.session, want.worker, session(want.session).agent
  if lease then run[LEASE] = lease end
  if timeout then run[TIMEOUT] = timeout end
  disarm(run, head.id, 's')
  if lease then arm(run, head.id, 'l', turn.lease + lease) end
  if timeout then arm(run, head.id, 't', turn.lease + timeout) end
  save(head.id, run)
  active(head, run, 1)
  tell('task.claimed', head, want.told, digits[run[ATTEMPT]], ',"fence":' .. fenceText)
  local more = (lease and ',"leaseMs":' .. digits[lease] or '') .. (timeout and ',"timeoutMs":' .. digits[timeout] or '') ..
    (head.deadline and ',"deadlineAt":"' .. iso(head.deadline) .. '"' or '') ..
    (run[SAVED] and ',"saved":' .. run[SAVED] or '')
  local line = '{"task":' .. head.json .. ',"queue":' .. known.json .. ',"attempt":' .. digits[run[ATTEMPT]] ..
    ',"maxAttempts":' .. digits[head.attempts or known.attempts] .. ',"fence":' .. fenceText .. more .. ',' .. head.members .. '}'
  answer(want.index, head.id, fenceText, line)
end

-- A picked task that may not start any more: its deadline, or before its first start its startBy, is over.
local function tooLate(head, run)
  if head.deadline and head.deadline <= turn.now then return true end
  return head.startBy and head.startBy <= turn.now and not (run and run[ATTEMPT] + run[REFUNDS] > 0)
end

-- Hands out what was picked, in order, as long as it has room; the rest stays. Answers how many were given and whether
-- the want is full.
local function give(want, picked)
  local known, names, given, full = queueOf(want.queue), {}, 0, false
  for i, row in ipairs(picked) do names[2 * i - 1], names[2 * i] = P .. 'task:' .. row[1], P .. 'run:' .. row[1] end
  local found = call('MGET', unpack(names))
  for i, row in ipairs(picked) do
    local text, run = found[2 * i - 1], found[2 * i] and cmsgpack.unpack(found[2 * i])
    -- Never less than its line will have: names may be escaped in it.
    local size = text and #text + (run and run[SAVED] and #run[SAVED] or 0) + 1000 or 0
    full = full or want.room and want.bytes > 0 and want.bytes + size > want.room or
      claims.bytes > 0 and claims.bytes + size > claims.bytesMax
    if full then stay(want.queue, row)
    elseif not text then remove(known.waiting, row[1])
    else
      local head = parseHead(row[1], text)
      claims.tasks = claims.tasks + 1
      if tooLate(head, run) then
        row.entry.time = row.entry.time - 1
        fromReady(head)
        finish(head, run or newRun(head, 'ready', row[2]), 'expired', 'deadline')
      else
        known.vtime, known.served = math.max(known.vtime, row.start), true
        remove(known.waiting, head.id)
        waits(head, -1)
        handOut(want, head, run, row[2])
        want.bytes, claims.bytes, given = want.bytes + size, claims.bytes + size, given + 1
      end
    end
  end
  local fits = given > 0 and floor((claims.bytesMax - claims.bytes) / claims.bytes * #claims.rows / 4) or claims.bite
  claims.bite = math.max(1, math.min(64, claims.bite * 2, fits))
  return given, full
end

-- A new task that finds a worker while nothing waits in its queue goes straight to it: it would be the next one anyway,
-- so the sets of those who wait need not be written and read back. Only while all new tasks of the queue share tenant,
-- kind and priority, and not behind one that could not go: else order is what the lanes say. One with startBy or deadline may
-- be too late already, and its timer is written after it would be taken back. True if it went.
function claims.direct(head, tail, score)
  local known = queueOf(head.queue)
  if known.idle == nil then
    known.idle = known.groups == 1 and not known.paused and call('EXISTS', known.waiting) == 0
  end
  if head.startBy or head.deadline or spent() then known.idle = false end
  if not known.idle then return false end
  for _, want in ipairs(claims.wants) do
    local size = #tail + 1000
    local fits = (not want.room or want.bytes == 0 or want.bytes + size <= want.room) and
      (claims.bytes == 0 or claims.bytes + size <= claims.bytesMax)
    if want.queue == head.queue and want.count > 0 and fits and (not want.kinds or want.serves[head.kind]) then
      local attempts, timeout, lease, _, _, _, from = struct.unpack('ssssss', tail)
      head.attempts, head.timeout, head.lease = tonumber(attempts), tonumber(timeout), tonumber(lease)
      head.members = string.sub(tail, from)
      claims.straight[#claims.straight + 1] = { want, head, score }
      want.count, want.bytes = want.count - 1, want.bytes + size
      claims.bytes, claims.tasks = claims.bytes + size, claims.tasks + 1
      return true
    end
  end
  known.idle = false
  return false
end

-- Serves one want.
local function serve(want)
  local known = queueOf(want.queue)
  if known.paused then return end
  local kinds = want.kinds or call('ZRANGE', P .. 'lanes:' .. want.queue, 0, 64)
  local left, full = want.count, false
  while left > 0 and not full and not spent() do
    local picked, touched = pick(want.queue, kinds, math.min(left, claims.bite))
    if #picked == 0 then break end
    local given
    given, full = give(want, picked)
    left = left - given
    for tenant, entry in pairs(touched) do
      add(P .. 'vtime:' .. want.queue, int(entry.time), tenant)
      for _, lane in ipairs(entry.lanes) do add(lanesKey(want.queue, lane[1]), int(entry.time), tenant) end
    end
    -- Lanes and times must be true before the next pick of this script looks at them.
    task.flush()
  end
  -- Stopped by the bound of the script, not by an empty queue: who got less than it wanted should ask again.
  if left > 0 and (full or spent()) then answer(0, '', '', '') end
  if known.served then
    if call('EXISTS', P .. 'waiting:' .. want.queue) == 0 then
      call('DEL', P .. 'vtime:' .. want.queue)
      call('HDEL', P .. 'queue:' .. want.queue, 'vtime')
      known.vtime = 0
    else call('HSET', P .. 'queue:' .. want.queue, 'vtime', int(known.vtime)) end
    known.served = false
  end
end

-- Wants stand in ARGV from `at`: their number, then for each session, binding, worker (\0 first: a queue.claim call, which
-- has no worker's name), queue, kinds ('' for all, else \0 between), leaseMs, count, room ('' or the bytes its tasks may
-- take together).
function claims.read(at)
  local number = tonumber(ARGV[at])
  at = at + 1
  for index = 1, number do
    local want = { index = index, session = ARGV[at], worker = ARGV[at + 2], queue = ARGV[at + 3],
      lease = tonumber(ARGV[at + 5]), count = tonumber(ARGV[at + 6]), room = tonumber(ARGV[at + 7]), bytes = 0 }
    if ARGV[at + 4] ~= '' then
      want.kinds, want.serves = {}, {}
      for kind in string.gmatch(ARGV[at + 4], '%Z+') do
        want.kinds[#want.kinds + 1], want.serves[kind] = kind, true
      end
    end
    if speaks(want.session, ARGV[at + 1]) then
      -- What every `task.claimed` of this want says of its holder.
      local worker = string.byte(want.worker) ~= 0 and ',"worker":' .. name(want.worker) or ''
      want.told = ',' .. session(want.session).holder .. worker .. ',"attempt":'
      claims.wants[#claims.wants + 1] = want
    else answer(-index, '', '', '') end
    at = at + 8
  end
end

-- Serves what was read, first with what goes straight. Answers the claims as rows want, task, fence, line in
-- one list, and for each want whose session does not speak here any more its index, negative.
function claims.serve()
  for _, row in ipairs(claims.straight) do handOut(row[1], row[2], nil, row[3]) end
  for _, want in ipairs(claims.wants) do
    if want.count > 0 then
      -- Lanes and times must be true before they are looked at.
      task.flush()
      serve(want)
    end
  end
  return claims.rows
end
