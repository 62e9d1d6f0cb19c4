-- How holding begins and ends: every road to a grant and every road out of it passes here.
-- @include lock-wait
do
  local due = P .. 'lockDue'
  -- Waits that this script ended with a grant: session, grant, fence, validMs, maxHoldMs or ''. Whoever runs the script may
  -- tell them from its reply, ahead of the log.
  lock.news = {}

  function lock.validMs(grant)
    local known = session(grant.session)
    local valid = math.min(known.ttl or 0, grant.lease or 1e15)
    return grant.release and math.min(valid, known.grace) or valid
  end

  -- The longest it may be held: what was asked for and what the locks are defined with.
  local function longest(grant)
    local most = grant.hold or 1e15
    for _, part in ipairs(grant.nodes) do
      local max = part[4] and lock.node(part[1]).maxHoldMs or 0
      if max > 0 then most = math.min(most, max) end
    end
    return most < 1e15 and most or nil
  end

  local function arm(id, grant)
    local hold, ends = longest(grant), nil
    if grant.lease then
      ends = turn.lease + grant.lease
      call('ZADD', due, int(ends), 'e' .. id)
    end
    if hold then
      call('ZADD', due, int(turn.lease + hold), 'h' .. id)
      ends = math.min(ends or 1e15, turn.lease + hold)
    end
    grant.holdMs = hold
    return ends
  end

  function lock.grant(id, grant, more)
    local waited = grant.state == 'waiting'
    if waited then
      if not grant.parked then lock.dequeue(id, grant, false) end
      lock.counted(grant, -1)
      call('ZREM', due, 'w' .. id)
      more = ',"waitedMs":' .. int(turn.now - grant.since)
    end
    grant.fence, grant.state, grant.parked, grant.since = nextFence(), 'held', nil, turn.now
    local fence = int(grant.fence)
    for _, part in ipairs(grant.nodes) do
      local node = lock.node(part[1])
      node[part[2]] = node[part[2]] + part[3]
      if part[4] then node.fence = grant.fence end
      call('ZADD', P .. (part[4] and 'lockHolds:' or 'lockBelow:') .. node.name, fence, id)
    end
    local ends, valid = arm(id, grant), int(lock.validMs(grant))
    if waited then
      lock.news[#lock.news + 1] = { grant.session, id, fence, valid, grant.holdMs and int(grant.holdMs) or '' }
    end
    -- Work and what goes with the socket stands ahead of what only the end of the session takes (lease/give-back.lua).
    lock.holding(grant.session, id, int((grant.release and bands.width or bands.kept) + turn.now))
    lock.save(id, grant)
    lock.tell('lock.granted', id, grant, ',"fence":' .. fence .. ',"validMs":' .. valid ..
      (grant.holdMs and ',"maxHoldMs":' .. int(grant.holdMs) or '') ..
      (grant.reason ~= '' and ',"reason":' .. json(grant.reason) or '') ..
      (ends and ',"endsAt":"' .. iso(ends + turn.skew) .. '"' or '') .. (more or ''), true)
  end

  -- A node has one clock for both of its delays: the sooner one that is still to come.
  function lock.windDelay(node)
    local soonest = 1e15
    for _, at in ipairs({ node.notBefore, node.below }) do
      if at > turn.lease then soonest = math.min(soonest, at) end
    end
    if soonest < 1e15 then call('ZADD', due, int(soonest), 'd' .. node.name) end
  end

  -- Nobody gets a lock at once whose holder did not give it back itself: it may still be at it.
  local function delay(grant)
    local most = 0
    for _, part in ipairs(grant.nodes) do
      local node = lock.node(part[1])
      if part[4] and node.lockDelayMs > 0 then
        node.notBefore = math.max(node.notBefore, turn.lease + node.lockDelayMs)
        lock.windDelay(node)
        most = math.max(most, node.notBefore)
      end
    end
    if most == 0 then return nil end
    for _, part in ipairs(grant.nodes) do
      local node = lock.node(part[1])
      if not part[4] then
        node.below = math.max(node.below, most)
        lock.windDelay(node)
      end
    end
    return most
  end

  -- The one end of a hold. `reason` released and closed are the holder's own doing; all others are lost.
  function lock.free(id, grant, reason, more)
    local own = reason == 'released' or reason == 'closed'
    lock.spend(grant)
    -- Fenced out: what is current now is never the fence of somebody who has lost.
    local fence = not own and nextFence()
    for _, part in ipairs(grant.nodes) do
      local node = lock.node(part[1])
      node[part[2]] = node[part[2]] - part[3]
      call('ZREM', P .. (part[4] and 'lockHolds:' or 'lockBelow:') .. node.name, id)
      if fence and part[4] then node.fence = fence end
      lock.freed(node, part[2])
    end
    if grant.lease or grant.holdMs then call('ZREM', due, 'e' .. id, 'h' .. id) end
    local ends = not own and delay(grant)
    lock.remember(id, grant, own and 'released' or 'lost')
    lock.tell(own and 'lock.released' or 'lock.lost', id, grant, ',"fence":' .. int(grant.fence) .. ',"reason":"' .. reason .. '"' ..
      (ends and ',"notBeforeAt":"' .. iso(ends + turn.skew) .. '"' or '') .. (more or ''))
  end
end
