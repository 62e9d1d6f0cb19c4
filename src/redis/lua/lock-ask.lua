-- One acquire, and what it answers. Nothing here is refused by an error: what was found dead on the way has been ended by
-- then, with its events, and must be written.
-- @include lock-deadlock
-- @include memory-short
do
  -- Whether the lease of its own is over although no sweep has seen it yet.
  local function lapsed(id, grant)
    local ends = grant.lease and call('ZSCORE', P .. 'lockDue', 'e' .. id)
    return ends and tonumber(ends) <= turn.lease
  end

  -- Made with the first acquire of a script: one of releases alone, a hand-off, does without.
  local function newAcquire()
    local function text(code, details) return { code .. (details and ' ' .. details or '') } end

    -- One node, asked for twice by one request: itself, and as a directory above another of its locks.
    local stronger = { s = { r = 's', w = 'u', s = 's', x = 'x' }, x = { s = 'x', x = 'x', r = 'x', w = 'x' },
      r = { r = 'r', w = 'w', s = 's', x = 'x' }, w = { r = 'w', w = 'w', s = 'u', x = 'x' },
      u = { r = 'u', w = 'u', s = 'u', x = 'x' } }

    -- What a request takes, node by node: { node, class, weight, named itself }; or nil and the refusal.
    local function plan(rows)
      local parts, at = {}, {}
      local function take(name, class, weight, own)
        local known = at[name]
        if known then
          known[2], known[4] = stronger[known[2]][class], known[4] or own
          return
        end
        at[name] = { name, class, weight, own }
        parts[#parts + 1] = at[name]
      end
      for _, row in ipairs(rows) do
        local node, word = lock.node(row[2]), row[3]
        local named = '{"lock":' .. json(row[1])
        if node.capacity > 0 then
          if word ~= 'p' and word ~= 'd' then
            return nil, text('!KIND_MISMATCH', named .. ',"capacity":' .. int(node.capacity) .. '}')
          end
          if row[4] > node.capacity then
            return nil, text('!NEVER_FITS', named .. ',"permits":' .. int(row[4]) .. ',"capacity":' .. int(node.capacity) .. '}')
          end
          take(row[2], 'p', row[4], true)
        elseif word == 'p' then return nil, text('!KIND_MISMATCH', named .. '}')
        else
          take(row[2], word == 's' and 's' or 'x', 1, true)
          if node.path then
            for _, above in ipairs(lock.above(row[2])) do take(above, word == 's' and 'r' or 'w', 1, false) end
          end
        end
      end
      return parts
    end

    -- Members that name a grant's holder: shown to whoever waits for it.
    local function shown(id, grant)
      local ends = lock.ends(id)
      return ',"holder":{"session":' .. json(grant.session) .. ',"agent":' .. json(grant.agent) .. '}' ..
        (grant.reason ~= '' and ',"reason":' .. json(grant.reason) or '') .. ',"sinceAt":"' .. iso(grant.since) .. '"' ..
        (ends and ',"endsAt":"' .. iso(ends + turn.skew) .. '"' or '')
    end

    -- Somebody who is in the way at a node: a holder if there is one, else the first who waits.
    local function inTheWay(node, class)
      local against = lock.against(class)
      for _, key in ipairs(node.path and { 'lockHolds:', 'lockBelow:' } or { 'lockHolds:' }) do
        for _, id in ipairs(call('ZRANGE', P .. key .. node.name, 0, 19)) do
          local grant = lock.load(id)
          for _, part in ipairs(grant and grant.nodes or {}) do
            if part[1] == node.name and against[part[2]] then return shown(id, grant) end
          end
        end
      end
      for _, other in ipairs(lock.conflicting(node, class)) do
        local low, high = lock.range(node, other)
        local found = call('ZRANGE', P .. 'lockWaits', low, high, 'BYLEX', 'LIMIT', 0, 1)[1]
        local id = found and string.sub(found, #node.name + 21)
        local grant = id and lock.load(id)
        if grant and grant.nodes then return shown(id, grant) end
      end
      return ''
    end

    -- The place in the longest of its queues; 1 is next.
    local function placeOf(parts, ticket)
      local most = 0
      for _, part in ipairs(parts) do
        local node, ahead = lock.node(part[1]), 0
        if part[4] and node.queued > 0 then
          for _, class in ipairs(lock.classes) do
            local low, high = lock.range(node, class, nil, ticket)
            ahead = ahead + call('ZLEXCOUNT', P .. 'lockWaits', low, high)
          end
        end
        most = math.max(most, ahead)
      end
      return most + 1
    end

    -- How many wait for one of its locks, if no more of them may.
    local function crowded(parts)
      for _, part in ipairs(parts) do
        local waits = part[4] and lock.node(part[1]).waits or 0
        if waits >= tonumber(waitersMax) then return waits end
      end
    end

    -- What stands in the way, as members of `details`.
    local function because(parts, ticket, why, node, class, ends)
      local members = '"place":' .. int(placeOf(parts, ticket))
      if why == 'grace' then ends = turn.graceUntil end
      if ends then
        return members .. ',"why":"' .. why .. '","endsAt":"' .. iso(ends + turn.skew) .. '","afterMs":' ..
          int(ends - turn.lease)
      end
      return members .. ',"lock":' .. json(node.name) .. inTheWay(node, class)
    end

    local function held(grant)
      return { 'held', int(grant.fence), int(lock.validMs(grant)), grant.holdMs and int(grant.holdMs) or '' }
    end

    local function waiting(grant)
      local why, node, class, ends = lock.blocked(grant.nodes, grant.ticket)
      local members = why and because(grant.nodes, grant.ticket, why, node, class, ends) or '"place":1'
      return { 'waiting', '{' .. members .. '}' }
    end

    local function stale(item, left)
      local node = left and (left.node or left.rows[1][2]) or item.rows[1][2]
      local current = math.max(lock.node(node).fence, left and left.state == 'held' and left.fence or 0)
      return text('!STALE_FENCE', '{"yours":' .. int(item.reclaim or left and left.fence or 0) .. ',"current":' .. int(current) .. '}')
    end

    local function sameRows(a, b)
      if #a ~= #b then return false end
      for i, row in ipairs(a) do
        for field = 1, 4 do
          if row[field] ~= b[i][field] then return false end
        end
      end
      return true
    end

    -- The holder, or the one that waits, says the same again.
    local function again(item, grant)
      if grant.session ~= item.session then
        if item.reclaim then return stale(item, grant) end
        return text('!CONFLICT', '{"message":"the grant is one of another session"}')
      end
      if grant.rows and not sameRows(grant.rows, item.rows) then
        return text('!CONFLICT', '{"message":"the grant was asked for with other locks"}')
      end
      if grant.state == 'held' then
        if lapsed(item.id, grant) then
          lock.free(item.id, grant, 'leaseLapsed')
          return stale(item, lock.load(item.id))
        end
        if grant.lease then call('ZADD', P .. 'lockDue', int(turn.lease + grant.lease), 'e' .. item.id) end
        renew(session(item.session), 0)
        return held(grant)
      end
      if grant.state == 'waiting' then
        if not item.reclaim then return waiting(grant) end
        -- It held before the store lost its last moments, and the store has it waiting.
        if turn.graceUntil > turn.lease and not lock.blocked(grant.nodes, '~', true) then
          lock.grant(item.id, grant)
          return held(grant)
        end
        lock.endWait(item.id, grant, 'cancelled')
        return stale(item, nil)
      end
      if grant.state == 'timeout' then return text('!HELD', '{"message":"the wait for it has run out"}') end
      if grant.state == 'neverFits' then return text('!NEVER_FITS') end
      return stale(item, grant)
    end

    -- Held before the store was lost: restored under a higher fence, if nobody else has it by now.
    local function reclaim(item, grant)
      local high = item.reclaim > turn.nowUs + 31622400000000
      if high or turn.graceUntil <= turn.lease or lock.blocked(grant.nodes, '~', true) then return stale(item, nil) end
      turn.last = math.max(turn.last, item.reclaim)
      lock.grant(item.id, grant, ',"reclaimed":' .. int(item.reclaim))
      return held(grant)
    end

    -- item: id, session, binding, owner, waitMs, lease, hold, reason, release, reclaim, rows.
    return function(item)
      local known = session(item.session)
      if not known.alive or known.binding ~= item.binding then return text('!SESSION_LOST') end
      local before = lock.load(item.id)
      if before then return again(item, before) end
      -- What was held before the store was lost is no more than there was.
      if not item.reclaim and memoryIsShort() then return text(memoryRefusal) end
      local parts, refusal = plan(item.rows)
      if not parts then return refusal end
      local grant = { state = 'new', session = item.session, agent = known.agent, owner = item.owner, rows = item.rows,
        nodes = parts, lease = item.lease, hold = item.hold, reason = item.reason, release = item.release }
      if item.reclaim then return reclaim(item, grant) end
      local why, node, class, ends = lock.blocked(parts, '~')
      if why then
        -- Dead waiters that were found in front have been ended: what that frees goes to those who wait, first.
        lock.pump()
        why, node, class, ends = lock.blocked(parts, '~')
      end
      if not why then
        lock.grant(item.id, grant)
        return held(grant)
      end
      local members = because(parts, '~', why, node, class, ends)
      local full = item.waitMs > 0 and crowded(parts)
      if full then members = members .. ',"message":"as many wait for it as may","waiting":' .. int(full) end
      if item.waitMs == 0 or full then return text('!HELD', '{' .. members .. '}') end
      grant.ticket = '~'
      local cycle = lock.deadlock(grant)
      if cycle then return text('!DEADLOCK', '{"cycle":' .. cycle .. '}') end
      lock.wait(item.id, grant, item.waitMs)
      lock.tell('lock.waiting', item.id, grant, ',"place":' .. string.match(members, '^"place":(%d+)') .. ',"endsAt":"' ..
        iso(turn.lease + item.waitMs + turn.skew) .. '"' .. (item.reason ~= '' and ',"reason":' .. json(item.reason) or ''), true)
      return { 'waiting', '{' .. members .. '}' }
    end
  end
  local acquire

  function lock.acquire(item)
    acquire = acquire or newAcquire()
    return acquire(item)
  end

  -- Answers released, cancelled, alreadyReleased or notOwner.
  function lock.release(id, sessionId, binding)
    local grant, known = lock.load(id), session(sessionId)
    if not grant or grant.session ~= sessionId or not known.alive or known.binding ~= binding then return 'notOwner' end
    if grant.state == 'held' then
      if lapsed(id, grant) then
        lock.free(id, grant, 'leaseLapsed')
        return 'notOwner'
      end
      lock.free(id, grant, 'released')
      return 'released'
    end
    if grant.state == 'waiting' then
      lock.endWait(id, grant, 'cancelled')
      return 'cancelled'
    end
    return grant.state == 'lost' and 'notOwner' or 'alreadyReleased'
  end
end
