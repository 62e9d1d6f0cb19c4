-- Hands ready tasks to workers. The attempt is charged here, inside the claim: a task that kills its worker is counted
-- although nobody lives to report it.
--
-- Who is next: the tenant of lowest virtual time with a ready task in the worker's lanes, then that tenant's lowest
-- score. A start costs its tenant 1. The scores in `tenants:` may lag behind `vtime:` (a tenant that was served in
-- another lane); they are corrected when they come to the front, never searched.
-- @include finish
local claims = { rows = {}, steps = 0, bytes = 0 }

-- Tenants at the front of `kinds`, by true virtual time: a list sorted by time, each with the lanes it is ready in.
local function frontTenants(queue, kinds, want)
  local found, order = {}, {}
  for _, kind in ipairs(kinds) do
    local row = call('ZRANGE', lanesKey(queue, kind), 0, want, 'WITHSCORES')
    claims.steps = claims.steps + 1
    for i = 1, #row, 2 do
      local entry = found[row[i]]
      if not entry then
        entry = { tenant = row[i], time = tonumber(row[i + 1]), kinds = {} }
        found[row[i]] = entry
        order[#order + 1] = entry
      end
      entry.kinds[#entry.kinds + 1] = kind
    end
  end
  if #order > 1 then
    local names = {}
    for i, entry in ipairs(order) do names[i] = entry.tenant end
    local times = call('ZMSCORE', P .. 'vtime:' .. queue, unpack(names))
    for i, entry in ipairs(order) do entry.time = math.max(entry.time, tonumber(times[i] or 0)) end
    table.sort(order, function(a, b) return a.time < b.time or (a.time == b.time and a.tenant < b.tenant) end)
  end
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
    local popped = call('ZPOPMIN', laneKey(queue, kind, entry.tenant), count)
    claims.steps = claims.steps + 1
    leaves[queue .. '\0' .. kind .. '\0' .. entry.tenant] = { queue, kind, entry.tenant }
    for i = 1, #popped, 2 do out[#out + 1] = { popped[i], tonumber(popped[i + 1]) } end
    taken = taken + #popped / 2
    if #popped / 2 < count then table.remove(entry.kinds, at) end
  end
  return taken
end

-- Picks up to `want` tasks in order. Served tenants come back one later: as times only grow, they line up in a second
-- queue that is sorted by itself, and the next tenant is the smaller of the two heads.
local function pick(queue, kinds, want)
  local known = queueOf(queue)
  local order, again, out = frontTenants(queue, kinds, want), {}, {}
  local a, b = 1, 1
  local touched = {}
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
      known.vtime = math.max(known.vtime, entry.time + taken - 1)
      entry.time = entry.time + taken
      touched[entry.tenant] = entry
      known.served = true
    end
    if #entry.kinds > 0 then again[#again + 1] = entry end
  end
  for tenant, entry in pairs(touched) do
    add(P .. 'vtime:' .. queue, int(entry.time), tenant)
    for _, kind in ipairs(entry.kinds) do add(lanesKey(queue, kind), int(entry.time), tenant) end
  end
  return out
end

-- One task to one worker: the record, the sets, the event, and the line the agent will read.
local function handOut(want, head, run, score)
  local known = queueOf(head.queue)
  local fence = nextFence()
  run = run or newRun(head, 'active', score)
  run[STATE], run[FENCE], run[SCORE], run[STARTED], run[ENDED] = 'active', fence, score, turn.now, false
  run[SESSION], run[WORKER], run[AGENT] = want.session, want.worker, session(want.session).agent
  run[ATTEMPT], run[DUE], run[DUENO], run[ENDING] = run[ATTEMPT] + 1, false, false, false
  local lease, timeout = head.lease or want.lease or known.lease, head.timeout or known.timeout
  run[LEASE], run[TIMEOUT] = lease or false, timeout or false
  disarm(run, head.id, 's')
  if lease then arm(run, head.id, 'l', turn.lease + lease) end
  if timeout then arm(run, head.id, 't', turn.lease + timeout) end
  save(head.id, run)
  remove(P .. 'waiting:' .. head.queue, head.id)
  waits(head, -1)
  active(head, run, 1)
  local worker = want.worker ~= '' and ',"worker":' .. name(want.worker) or ''
  tell('task.claimed', head, ',' .. session(want.session).holder .. worker .. ',"attempt":' .. run[ATTEMPT] ..
    ',"fence":' .. int(fence))
  local line = '{"task":' .. head.json .. ',"queue":' .. known.json .. ',"attempt":' .. run[ATTEMPT] ..
    ',"maxAttempts":' .. (head.attempts or known.attempts) .. ',"fence":' .. int(fence) ..
    (lease and ',"leaseMs":' .. lease or '') .. (timeout and ',"timeoutMs":' .. timeout or '') ..
    (head.deadline and ',"deadlineAt":"' .. iso(head.deadline) .. '"' or '') ..
    (run[SAVED] and ',"saved":' .. run[SAVED] or '') .. ',' .. head.members .. '}'
  claims.bytes = claims.bytes + #line
  claims.rows[#claims.rows + 1] = { want.index, head.id, int(fence), line }
end

-- Serves one want. A picked task that may not start any more (startBy, deadline) ends here instead.
local function serve(want)
  local known = queueOf(want.queue)
  if known.paused then return end
  local kinds = want.kinds or call('ZRANGE', P .. 'lanes:' .. want.queue, 0, 63)
  local left = want.count
  while left > 0 and claims.bytes < 1048576 and claims.steps < 3000 do
    local picked = pick(want.queue, kinds, math.min(left, 32))
    if #picked == 0 then break end
    local names = {}
    for i, row in ipairs(picked) do names[2 * i - 1], names[2 * i] = P .. 'task:' .. row[1], P .. 'run:' .. row[1] end
    local found = call('MGET', unpack(names))
    for i, row in ipairs(picked) do
      local head = found[2 * i - 1] and parseHead(row[1], found[2 * i - 1])
      local run = found[2 * i] and cmsgpack.unpack(found[2 * i])
      if not head then remove(P .. 'waiting:' .. want.queue, row[1])
      elseif (head.deadline and head.deadline <= turn.now) or
        (head.startBy and head.startBy <= turn.now and not (run and run[ATTEMPT] + run[REFUNDS] > 0)) then
        fromReady(head)
        finish(head, run or newRun(head, 'ready', row[2]), 'expired', 'deadline')
      else
        handOut(want, head, run, row[2])
        left = left - 1
      end
    end
    -- Lanes and times must be true before the next pick of this script looks at them.
    task.flush()
  end
  -- Stopped by the bound of the script, not by an empty queue: who got less than it wanted should ask again.
  if left > 0 and (claims.bytes >= 1048576 or claims.steps >= 3000) then claims.rows[#claims.rows + 1] = { 0 } end
  if known.served then
    if call('EXISTS', P .. 'waiting:' .. want.queue) == 0 then
      call('DEL', P .. 'vtime:' .. want.queue)
      call('HDEL', P .. 'queue:' .. want.queue, 'vtime')
      known.vtime = 0
    else call('HSET', P .. 'queue:' .. want.queue, 'vtime', int(known.vtime)) end
    known.served = false
  end
end

-- Wants stand in ARGV from `at`: their number, then for each session, binding, worker, queue, kinds ('' for all, else
-- \0 between), leaseMs, count. Answers the claims as rows {want, task, fence, line}, and for each want whose session
-- does not speak here any more its index, negative.
function claims.serve(at)
  local number = tonumber(ARGV[at])
  at = at + 1
  for index = 1, number do
    local want = { index = index, session = ARGV[at], binding = ARGV[at + 1], worker = ARGV[at + 2], queue = ARGV[at + 3],
      lease = tonumber(ARGV[at + 5]), count = tonumber(ARGV[at + 6]) }
    if ARGV[at + 4] ~= '' then
      want.kinds = {}
      for kind in string.gmatch(ARGV[at + 4], '%Z+') do want.kinds[#want.kinds + 1] = kind end
    end
    if speaks(want.session, want.binding) then serve(want)
    else claims.rows[#claims.rows + 1] = { -index } end
    at = at + 7
  end
  return claims.rows
end
