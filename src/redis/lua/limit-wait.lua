-- Who is granted what, and who waits for it. Waiting is one queue a limit, start-time fair by agent and weight: an ask
-- stands at the later of the queue's virtual time and the end of its agent's last one, and moves that end by the largest
-- share of the limit it asks for. So an agent that queues a hundred asks does not keep another's first one waiting; who was
-- idle has earned nothing. The first of the queue is never passed by: a large ask is not starved by small ones.
--   limitWaits:<limit>  <ticket, 16 digits>\0<reservation> by virtual start
--   limitFair:<limit>   agent → virtual end of its last ask; those behind the virtual time are forgotten
-- @include limit-gate
do
  local due = P .. 'limitDue'
  -- Grants and ends that one script makes for one queue; the rest goes on by limitWake.
  local stepsMax = 100

  local function member(id, r) return r.ticket .. '\0' .. id end

  -- The largest share of the limit that an ask takes, by its weight: how far it moves its agent.
  local function advance(item, r)
    local most = 0
    for name, n in pairs(r.cost) do
      local dim = item.dims[name]
      if dim then most = math.max(most, n / dim.most) end
    end
    return most / r.weight
  end

  -- The dimension that an ask can never have enough of, as long as the limit is defined as it is.
  function limit.neverFits(item, cost)
    for name, n in pairs(cost) do
      local dim = item.dims[name]
      if not dim or n > dim.most then return name end
    end
  end

  -- Milliseconds until an ask fits, and the dimension (or nil: the gate) it waits for. Charges nothing.
  function limit.waitMs(item, cost)
    local ms, at = limit.gate(item), nil
    for name, n in pairs(cost) do
      local dim = item.dims[name]
      local wait = dims.wait(dim, n, turn.now)
      if item.phase then wait = math.max(wait, limit.pace(item, dim, n)) end
      if wait > ms then ms, at = wait, dim end
    end
    return ms, at
  end

  function limit.validMs(r)
    local ttl = session(r.session).ttl or 0
    return r.lease and math.min(r.lease, ttl) or ttl
  end

  -- It has them from now on. What a daemon granted by itself brings its fence.
  function limit.adopt(item, id, r)
    for name, n in pairs(r.cost) do
      local dim = item.dims[name]
      dims.charge(dim, n, turn.now)
      dim.reserved = dim.reserved + n
    end
    limit.hold(id, r)
    r.at, r.state, item.changed = turn.now, 'granted', true
    limit.save(id, r)
    if r.lease then call('ZADD', due, int(turn.lease + r.lease), 'e' .. id) end
  end

  -- Of what waited. `replied`: its caller hears of it from the reply to its ask, and needs no push.
  local function tellGrant(item, id, r, replied)
    limit.tell('limit.granted', item, id, r, ',"fence":' .. int(r.fence) .. ',"validMs":' .. int(limit.validMs(r)) ..
      (replied and '' or ',"waitedMs":' .. int(turn.now - r.since)))
  end

  -- `limit.asking`: the reservation that the reply under way answers.
  function limit.grant(item, id, r)
    local waited = r.state == 'waiting'
    r.fence = nextFence()
    limit.adopt(item, id, r)
    if item.phase then limit.passed(item, id) end
    if waited then tellGrant(item, id, r, limit.asking == id) end
  end

  -- ---- the queue

  local function leave(item, id, r)
    call('ZREM', P .. 'limitWaits:' .. item.name, member(id, r))
    item.waiting, item.changed, item.look = item.waiting - 1, true, true
  end

  local function enter(item, id, r)
    call('ZADD', P .. 'limitWaits:' .. item.name, fmt('%.17g', r.start), member(id, r))
    item.waiting, item.changed, item.look = item.waiting + 1, true, true
    limit.save(id, r)
  end

  local function dequeue(item, id, r, served)
    if r.parked then item.parked, item.dirty = item.parked - 1, true else leave(item, id, r) end
    call('ZREM', due, 'w' .. id)
    local fair = P .. 'limitFair:' .. item.name
    if item.waiting == 0 then item.headAt = nil end
    -- Who stands beside the queue has his place by this reckoning: begun anew, it would put everybody else ahead of him.
    if item.waiting + item.parked == 0 then
      item.v = 0
      call('DEL', fair)
    elseif served then
      item.v = math.max(item.v, r.start)
      call('ZREMRANGEBYSCORE', fair, '-inf', fmt('%.17g', item.v))
    -- What was never served is not held against its agent.
    else call('ZINCRBY', fair, fmt('%.17g', -r.step), r.agent) end
  end

  function limit.wait(item, id, r, waitMs)
    local fair = P .. 'limitFair:' .. item.name
    r.start = math.max(item.v, tonumber(call('ZSCORE', fair, r.agent) or 0))
    r.step, r.state, r.ticket, r.since = advance(item, r), 'waiting', fmt('%016.0f', nextFence()), turn.now
    call('ZADD', fair, fmt('%.17g', r.start + r.step), r.agent)
    call('ZADD', due, int(turn.lease + waitMs), 'w' .. id)
    call('ZADD', P .. 'held:' .. r.session, int(bands.kept + turn.now), 'r' .. id)
    enter(item, id, r)
  end

  -- A waiter whose session has no socket keeps its place and stands beside the queue until it is back: nobody waits for
  -- somebody who would not hear of his turn.
  local function park(item, id, r)
    leave(item, id, r)
    r.parked, item.parked = true, item.parked + 1
    limit.save(id, r)
  end

  function limit.unpark(id, r)
    local item = limit.get(r.limit)
    r.parked, item.parked = nil, item.parked - 1
    enter(item, id, r)
  end

  -- A daemon granted by itself what waits here: nobody had heard that it does.
  function limit.overtaken(item, id, r, fence)
    dequeue(item, id, r, true)
    r.parked, r.fence = nil, fence
    limit.adopt(item, id, r)
    tellGrant(item, id, r, true)
  end

  -- The one end of a wait, apart from its grant.
  function limit.endWait(item, id, r, reason)
    dequeue(item, id, r, false)
    limit.remember(id, r, reason)
    limit.tell('limit.waitEnded', item, id, r, ',"reason":"' .. reason .. '"')
  end

  local function gone(id)
    local known = session(id)
    if not known.alive then return known.endedAs == 'closed' and 'cancelled' or 'sessionLost' end
  end

  -- Grants from the front for as long as it fits.
  function limit.pump(item)
    item.look, item.headAt = false, nil
    for step = 1, stepsMax do
      local head = call('ZRANGE', P .. 'limitWaits:' .. item.name, 0, 0)[1]
      if not head then item.waiting = 0 return end
      local id = string.sub(head, 18)
      local r = limit.load(id)
      if not r or r.state ~= 'waiting' then
        call('ZREM', P .. 'limitWaits:' .. item.name, head)
      elseif gone(r.session) then limit.endWait(item, id, r, gone(r.session))
      elseif limit.neverFits(item, r.cost) then limit.endWait(item, id, r, 'neverFits')
      elseif session(r.session).away then park(item, id, r)
      else
        local ms = limit.waitMs(item, r.cost)
        if ms > 0 then
          item.look = false
          if ms < dims.none then item.headAt = turn.now + ms end
          return
        end
        dequeue(item, id, r, true)
        limit.grant(item, id, r)
      end
      if item.waiting == 0 then return end
      if step == stepsMax then item.headAt = turn.now end
    end
  end

  -- ---- the end of a reservation

  local function close(item, id, r)
    for name, n in pairs(r.cost) do
      local dim = item and (item.dims[name] or item.dropped[name])
      if dim then
        dim.reserved = dim.reserved - n
        if dim.mode == 'held' then dims.refund(dim, n, turn.now, r.at) end
      end
    end
    if item then item.changed, item.look = true, true end
    if r.lease then call('ZREM', due, 'e' .. id) end
  end

  -- What it really took. Less comes back to where it was taken from; more is a debt. Answers nothing.
  function limit.settle(item, id, r, actual)
    close(item, id, r)
    for name, n in pairs(r.cost) do
      local dim, took = item.dims[name], actual[name] or n
      if dim and dim.mode ~= 'held' and took < n then dims.refund(dim, n - took, turn.now, r.at) end
      if dim and dim.mode ~= 'held' and took > n then dims.charge(dim, took - n, turn.now) end
    end
    for name, took in pairs(actual) do
      if not r.cost[name] and item.dims[name] then dims.charge(item.dims[name], took, turn.now) end
    end
    limit.remember(id, r, 'settled')
    if item.probe == id then limit.cleared(item) end
  end

  local function costOf(r)
    local parts = {}
    for dimension, n in pairs(r.cost) do parts[#parts + 1] = json(dimension) .. ':' .. int(n) end
    return '{' .. concat(parts, ',') .. '}'
  end

  -- It ends without a word: what it took counts as spent, its concurrency is free.
  function limit.lose(item, id, r, reason)
    close(item, id, r)
    if item.probe == id then limit.unproven(item) end
    limit.remember(id, r, 'lost')
    limit.tell('limit.lost', item, id, r, ',"fence":' .. int(r.fence) .. ',"reason":"' .. reason .. '","cost":' .. costOf(r))
  end

  -- Whatever it is, its session has no more to do with it.
  function limit.giveBack(id, r, reason, waitReason)
    local item = limit.get(r.limit)
    if r.state == 'waiting' then limit.endWait(item, id, r, waitReason)
    elseif r.state == 'granted' then limit.lose(item, id, r, reason)
    else return false end
    return true
  end

  -- ---- full, and no longer

  function limit.saturate(item, dim)
    if item.saturated then return end
    item.saturated, item.dirty = true, true
    emit('limit.saturated', item.json, '{"limit":' .. item.json .. (dim and ',"dimension":' .. dim.json or '') .. '}')
  end

  -- Told once a fifth of everything is there again and nobody waits: not at every ask at the edge.
  function limit.recover(item)
    if item.waiting > 0 or item.phase then return end
    for _, dim in ipairs(item.list) do
      if dims.left(dim) * 5 < (dim.burst or dim.amount) then return end
    end
    item.saturated, item.dirty = nil, true
    emit('limit.recovered', item.json, '{"limit":' .. item.json .. ',"reason":"capacity"}')
  end
end
