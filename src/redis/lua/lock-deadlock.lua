-- Would waiting close a circle? Asked only of an owner that already holds something or waits for something: nobody waits
-- for anybody else.
--
-- An owner is stuck unless all it waits for can be granted once every owner that is not stuck has let go of what it holds
-- (a semaphore with permits left over needs only some of its holders to let go, so a chain of single edges would not do).
-- If the asker is stuck by a chain of stuck owners that leads back to itself, the chain is the answer. Owners that gave no
-- name of their own are whole sessions: their handlers wait for each other's turn, which is no circle.
--
-- Bounded in what one search looks at and what all of a script do: beyond, nothing is refused and the wait ends by its time.
-- @include lock-grant
do
  local most, spent, spentMax = 128, 0, 8192

  local function locksOf(sessionId)
    local ids = {}
    lock.flushHeld()
    for _, member in ipairs(call('ZRANGE', P .. 'held:' .. sessionId, int(bands.width), '+inf', 'BYSCORE', 'LIMIT', 0, most)) do
      if string.sub(member, 1, 1) == 'l' then ids[#ids + 1] = string.sub(member, 2) end
    end
    return ids
  end

  local function ownsMore(asked)
    local ids = locksOf(asked.session)
    lock.loadAll(ids)
    for _, id in ipairs(ids) do
      local grant = lock.load(id)
      if grant and grant.rows and grant.owner == asked.owner and not grant.parked then return true end
    end
    return false
  end

  -- Made when a script first searches: most have nobody to ask for, and making a function costs on every run.
  local function newSearch()
    local owners, list, rows

    local function keyOf(grant) return grant.session .. '\0' .. grant.owner end

    local function ownerOf(grant)
      local key = keyOf(grant)
      local owner = owners[key]
      if not owner then
        owner = { key = key, session = grant.session, agent = grant.agent, name = grant.owner, wants = {}, edges = {}, free = true }
        owners[key] = owner
        list[#list + 1] = owner
      end
      return owner
    end

    local function partAt(grant, node)
      for _, part in ipairs(grant.nodes or {}) do
        if part[1] == node.name then return part end
      end
    end

    -- Holders of a node that a class could not stand beside: { owner, weight }.
    local function holders(node, class)
      local out, against = {}, lock.against(class)
      for _, key in ipairs(node.path and { 'lockHolds:', 'lockBelow:' } or { 'lockHolds:' }) do
        for _, id in ipairs(call('ZRANGE', P .. key .. node.name, 0, most)) do
          rows = rows + 1
          local grant = lock.load(id)
          local part = grant and grant.state == 'held' and partAt(grant, node)
          if part and against[part[2]] then
            out[#out + 1] = { ownerOf(grant), part[3] }
          end
        end
      end
      return out
    end

    -- Owners of earlier waiters that a request gives way to.
    local function ahead(node, class, ticket)
      local out = {}
      if node.queued == 0 then return out end
      for _, other in ipairs(lock.conflicting(node, class)) do
        local low, high = lock.range(node, other, nil, ticket)
        for _, member in ipairs(call('ZRANGE', P .. 'lockWaits', low, high, 'BYLEX', 'LIMIT', 0, most)) do
          rows = rows + 1
          local grant = lock.load(string.sub(member, #node.name + 21))
          if grant and grant.state == 'waiting' then out[#out + 1] = { ownerOf(grant), 0 } end
        end
      end
      return out
    end

    -- Of waits for the same the last in the queue says it all: what lets it through lets the others through.
    local function want(owner, grant)
      for _, part in ipairs(grant.nodes) do
        local key = part[1] .. '\0' .. part[2] .. part[3]
        local known = owner.wants[key]
        if not known or known[2] < grant.ticket then owner.wants[key] = { part, grant.ticket } end
      end
      owner.free = false
    end

    local function expand(owner)
      for _, row in pairs(owner.wants) do
        local part, node = row[1], lock.node(row[1][1])
        owner.edges[#owner.edges + 1] = { node = node, weight = part[3], permits = part[2] == 'p',
          holders = holders(node, part[2]), ahead = ahead(node, part[2], row[2]) }
      end
    end

    -- Every owner that is met, with what it waits for. False if there are too many.
    local function collect()
      local at = 1
      while at <= #list do
        local owner = list[at]
        at = at + 1
        for _, id in ipairs(locksOf(owner.session)) do
          local grant = lock.load(id)
          if grant and grant.state == 'waiting' and not grant.parked and grant.owner == owner.name then want(owner, grant) end
          rows = rows + 1
        end
        expand(owner)
        if rows > 8 * most or #list > most then return false end
      end
      return true
    end

    -- A session as a whole does not wait for itself.
    local function counts(owner, other) return not other.free and (other ~= owner or owner.name ~= '') end

    local function granted(owner)
      for _, edge in ipairs(owner.edges) do
        local sum = edge.weight
        for _, row in ipairs(edge.holders) do
          if counts(owner, row[1]) then
            if not edge.permits then return false end
            sum = sum + row[2]
          end
        end
        if edge.permits and sum > edge.node.capacity then return false end
        for _, row in ipairs(edge.ahead) do
          if counts(owner, row[1]) then return false end
        end
      end
      return true
    end

    local function settle()
      repeat
        local changed = false
        for _, owner in ipairs(list) do
          if not owner.free and granted(owner) then owner.free, changed = true, true end
        end
      until not changed
    end

    -- The way from the asker back to itself over owners that are stuck, as JSON; nil if there is none.
    local function circle(mine)
      local from, at = { mine }, 1
      local came = {}
      while at <= #from do
        local owner = from[at]
        at = at + 1
        for _, edge in ipairs(owner.edges) do
          for _, rowsOf in ipairs({ edge.holders, edge.ahead }) do
            for _, row in ipairs(rowsOf) do
              local other = row[1]
              if counts(owner, other) and not came[other.key] then
                came[other.key] = { owner, edge.node.name }
                if other == mine then return came end
                from[#from + 1] = other
              end
            end
          end
        end
      end
    end

    local function print(mine, came)
      local hops, owner = {}, mine
      repeat
        local step = came[owner.key]
        owner = step[1]
        table.insert(hops, 1, '{"session":' .. json(owner.session) .. ',"agent":' .. json(owner.agent) ..
          (owner.name ~= '' and ',"owner":' .. json(owner.name) or '') .. ',"lock":' .. json(step[2]) .. '}')
      until owner == mine
      return '[' .. concat(hops, ',') .. ']'
    end

    return function(asked)
      owners, list, rows = {}, {}, 0
      local mine = ownerOf(asked)
      want(mine, asked)
      local all = collect()
      spent = spent + rows
      if not all then return nil end
      settle()
      local came = not mine.free and circle(mine)
      return came and print(mine, came) or nil
    end
  end
  local search

  -- The circle that waiting for `asked` would close, as JSON: each owner with the lock it waits for; nil if none.
  function lock.deadlock(asked)
    if spent > spentMax or not ownsMore(asked) then return nil end
    search = search or newSearch()
    return search(asked)
  end
end
