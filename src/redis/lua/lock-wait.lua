-- Who waits for a lock and who is next. FIFO by one ticket over all queues: a request gives
-- way to every earlier one that it could not stand beside, and to no other. Requests wait in all their queues under one
-- ticket, so they cannot wait for each other in a circle.
--
-- Only waiters whose session lives and has a socket stand in the queues. One without is taken out when it comes to the
-- front (`parked`) and comes back under its old ticket when its session resumes: the dead never hold up the living.
--   lockWaits  <node>\0<class>\0<ticket, 16 digits>\0<grant>
--   lockDue    w<grant> wait over, e<grant> own lease over, h<grant> held too long, d<node> delay over,
--              p<node>\0<class>\0<from> a queue to go on with, g<from> the grace after an epoch is over
-- @include lock
do
  local Z, waits, due = '\0', P .. 'lockWaits', P .. 'lockDue'
  local conflicts = { s = { 'x', 'w', 'u', 'p' }, x = { 's', 'x', 'r', 'w', 'u', 'p' }, r = { 'x' }, w = { 's', 'x', 'u' },
    u = { 's', 'x', 'w', 'u' }, p = { 'p', 's', 'x' } }
  lock.classes = { 's', 'x', 'p', 'r', 'w', 'u' }
  local work, steps = {}, 0
  -- Checks, grants and ends that one script may make; the rest goes on by lockDue.
  local stepsMax = 300
  local head

  -- A path is taken and let go of at every directory above it, and each of several locks has an event of its own.
  function lock.weight(grant) return math.max(1, #grant.nodes / 5) end
  function lock.spend(grant) steps = steps + lock.weight(grant) end
  function lock.isSpent() return steps >= stepsMax end

  -- Classes that can wait at a node of this kind.
  local function possible(node, class)
    if node.capacity > 0 then return class == 'p' end
    return class == 's' or class == 'x' or node.path and class ~= 'p'
  end

  function lock.conflicting(node, class)
    local list = {}
    for _, other in ipairs(conflicts[class]) do
      if possible(node, other) then list[#list + 1] = other end
    end
    return list
  end

  -- The same as a set, with what an older definition of the lock may have left behind.
  function lock.against(class)
    local set = {}
    for _, other in ipairs(conflicts[class]) do set[other] = true end
    return set
  end

  function lock.range(node, class, from, to)
    local at = node.name .. Z .. class
    return '[' .. at .. Z .. (from or ''), '(' .. at .. (to and Z .. to or '\1')
  end

  local onlyOfPaths = { r = true, w = true, u = true }

  -- Looks at a queue once this script has done what it came for.
  function lock.look(node, class, from)
    if node.queued == 0 or onlyOfPaths[class] and not node.path then return end
    local looked = node.looked or {}
    node.looked = looked
    if looked[class] then return end
    looked[class] = true
    work[#work + 1] = { node = node, class = class, from = from }
  end

  function lock.lookAll(node)
    for _, class in ipairs(lock.classes) do lock.look(node, class) end
  end

  -- Somebody holds, or waits ahead, no longer.
  function lock.freed(node, class)
    if node.queued == 0 then return end
    for _, other in ipairs(conflicts[class]) do lock.look(node, other) end
  end

  local function enqueue(id, grant)
    for _, part in ipairs(grant.nodes) do
      local node = lock.node(part[1])
      call('ZADD', waits, 0, node.name .. Z .. part[2] .. Z .. grant.ticket .. Z .. id)
      node.queued, node.first = node.queued + 1, false
    end
  end

  -- `looks`: it is not going to hold what it waited for, so that whoever it kept waiting may be next.
  function lock.dequeue(id, grant, looks)
    for _, part in ipairs(grant.nodes) do
      local node = lock.node(part[1])
      call('ZREM', waits, node.name .. Z .. part[2] .. Z .. grant.ticket .. Z .. id)
      node.queued, node.first = node.queued - 1, false
      if looks or part[2] == 'p' then lock.freed(node, part[2]) end
    end
  end

  function lock.counted(grant, delta)
    for _, part in ipairs(grant.nodes) do
      if part[4] then lock.node(part[1]).waits = lock.node(part[1]).waits + delta end
    end
  end

  function lock.wait(id, grant, waitMs)
    grant.state, grant.ticket, grant.since = 'waiting', fmt('%016.0f', nextFence()), turn.now
    enqueue(id, grant)
    lock.counted(grant, 1)
    call('ZADD', due, int(turn.lease + waitMs), 'w' .. id)
    lock.holding(grant.session, id, int(bands.kept + turn.now))
    lock.save(id, grant)
  end

  function lock.park(id, grant)
    lock.spend(grant)
    lock.dequeue(id, grant, true)
    grant.parked = true
    lock.save(id, grant)
  end

  function lock.unpark(id, grant)
    grant.parked = nil
    enqueue(id, grant)
    lock.save(id, grant)
    for _, part in ipairs(grant.nodes) do lock.look(lock.node(part[1]), part[2]) end
  end

  -- The one end of a wait, apart from its grant.
  function lock.endWait(id, grant, reason)
    lock.spend(grant)
    if not grant.parked then lock.dequeue(id, grant, true) end
    lock.counted(grant, -1)
    call('ZREM', due, 'w' .. id)
    lock.remember(id, grant, reason)
    lock.tell('lock.waitEnded', id, grant, ',"reason":"' .. reason .. '"')
  end

  -- Defined otherwise since it was asked for.
  local function unfit(node, class, grant)
    if not possible(node, class) then return true end
    if class ~= 'p' then return false end
    for _, part in ipairs(grant.nodes) do
      if part[1] == node.name and part[3] > node.capacity then return true end
    end
    return false
  end
  lock.unfit = unfit

  -- The first member of a queue, false if there is none: who is granted is looked for, and looked at, from several sides.
  local function firstOf(node, class, from)
    if from then
      local low, high = lock.range(node, class, from)
      return call('ZRANGE', waits, low, high, 'BYLEX', 'LIMIT', 0, 1)[1]
    end
    local first = node.first or {}
    node.first = first
    if first[class] == nil then
      local low, high = lock.range(node, class)
      first[class] = call('ZRANGE', waits, low, high, 'BYLEX', 'LIMIT', 0, 1)[1] or false
    end
    return first[class]
  end

  -- The first of a queue, from `from` on, that may be granted at all: ticket, grant id, grant.
  function head(node, class, from)
    while node.queued > 0 do
      local found = firstOf(node, class, from)
      if not found then return nil end
      local at = #node.name + 4
      local ticket, id = string.sub(found, at, at + 15), string.sub(found, at + 17)
      local grant = lock.load(id)
      local known = grant and grant.state == 'waiting' and session(grant.session)
      if not known then
        call('ZREM', waits, found)
        node.queued, node.first, steps = node.queued - 1, false, steps + 1
      elseif not known.alive then lock.endWait(id, grant, known.endedAs == 'closed' and 'cancelled' or 'sessionLost')
      elseif unfit(node, class, grant) then lock.endWait(id, grant, 'neverFits')
      elseif known.away then lock.park(id, grant)
      else return ticket, id, grant end
      -- Too many dead at the front for one script: whoever looks again goes on here.
      if steps > 2 * stepsMax then return '', id, grant end
    end
  end

  local function fits(node, class, weight)
    if class == 'p' then return node.s + node.x == 0 and node.p + weight <= node.capacity end
    if node.p > 0 or node.x > 0 then return false end
    if class == 'r' then return true end
    if class == 's' then return node.w + node.u == 0 end
    if class == 'w' then return node.s + node.u == 0 end
    return node.s + node.w + node.u + (class == 'x' and node.r or 0) == 0
  end

  -- Why a request may not be granted now, and at which node; nil if it may. A ticket of ~ is behind everybody.
  -- `reclaims`: it was held before the store was lost, so neither newcomers nor delays stand in its way.
  function lock.blocked(parts, ticket, reclaims)
    if turn.graceUntil > turn.lease and not reclaims then return 'grace' end
    for _, part in ipairs(parts) do
      local node, class = lock.node(part[1]), part[2]
      if not fits(node, class, part[3]) then return 'held', node, class end
      if not reclaims then
        if node.notBefore > turn.lease then return 'delay', node, class, node.notBefore end
        if part[4] and node.below > turn.lease then return 'delay', node, class, node.below end
        if node.queued > 0 then
          for _, other in ipairs(lock.conflicting(node, class)) do
            local first = head(node, other)
            if first and first < ticket then return 'queue', node, class end
          end
        end
      end
    end
  end

  -- Grants from one queue in the order of its tickets. Where a later one cannot stand beside the first, the first decides;
  -- where it can, whoever waits for something else is passed by.
  local function serve(item)
    local node, class, from = item.node, item.class, item.from
    while node.queued > 0 do
      if steps >= stepsMax then
        call('ZADD', due, int(turn.lease), 'p' .. node.name .. Z .. class .. Z .. (from or ''))
        lock.left = true
        return
      end
      -- Whoever is next, there is no room: mostly because it was just granted to the one before.
      if class ~= 'p' and possible(node, class) and not fits(node, class, 1) then return end
      local ticket, id, grant = head(node, class, from)
      if not ticket then return end
      if ticket == '' then steps = stepsMax
      else
        lock.spend(grant)
        local why, at = lock.blocked(grant.nodes, ticket)
        if not why then lock.grant(id, grant)
        elseif at == nil or at == node or class == 'x' or class == 'p' or class == 'u' then return
        else from = ticket .. '\1' end
      end
    end
  end

  -- All that has become possible by what this script did.
  function lock.pump()
    if #work == 0 then return end
    local at = 1
    while at <= #work do
      local item = work[at]
      item.node.looked[item.class] = nil
      serve(item)
      at = at + 1
    end
    work = {}
  end
end
