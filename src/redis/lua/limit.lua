-- Limits and reservations as they are stored.
--   limit:<name>       hash of two packed maps: `def`, and `now`, read once and written once a script, whatever the number
--                      of asks in it
--   reservation:<id>   packed map: limit, session, agent, cost, state. An ended one is remembered for 60 s, so that a
--                      request that comes again is answered and not carried out again
--   limitDue           e<reservation> its lease over, w<reservation> its wait over (lease)
--   limitWake          limits to look at again: a refill that frees the first waiter, the end of a pause, a gauge (time)
-- @include session
-- @include limit-dims
-- @include bands
local limit = { rememberMs = 60000 }
do
  local loaded, reservations = {}, {}
  -- What flush writes: reservations that changed; those that became work of their session, 'new' if they were nothing before.
  local unsaved, unheld = {}, {}

  function limit.get(name)
    local item = loaded[name]
    if item ~= nil then return item end
    local row = call('HMGET', P .. 'limit:' .. name, 'def', 'now')
    item = row[1] and dims.open(name, row[1], row[2], turn.now)
    if item then item.json, item.look = json(name), true end
    loaded[name] = item
    return item
  end

  -- After its definition has changed.
  function limit.reopen(item, name)
    if item then call('HSET', P .. 'limit:' .. name, 'now', dims.pack(item)) end
    loaded[name] = nil
    local again = limit.get(name)
    again.changed = true
    return again
  end

  -- Reads many at once: a batch asks for as many reservations as it has items.
  function limit.preload(ids)
    local names = {}
    for i, id in ipairs(ids) do names[i] = P .. 'reservation:' .. id end
    local found = #ids > 0 and call('MGET', unpack(names)) or {}
    for i, id in ipairs(ids) do reservations[id] = found[i] and cmsgpack.unpack(found[i]) or false end
  end

  function limit.load(id)
    if reservations[id] == nil then limit.preload({ id }) end
    return reservations[id]
  end

  -- Written by flush, as many at once as a batch has granted.
  function limit.save(id, r) reservations[id], unsaved[id] = r, true end

  -- From now on it is work of its session.
  function limit.hold(id, r) unheld[id] = r.state and 'moved' or 'new' end

  -- An ended one leaves behind how it ended.
  function limit.remember(id, r, state)
    local left = { limit = r.limit, session = r.session, state = state, fence = r.fence, key = r.key }
    local isKnown = unheld[id] ~= 'new'
    reservations[id], unsaved[id], unheld[id] = left, nil, nil
    call('SET', P .. 'reservation:' .. id, cmsgpack.pack(left), 'PX', limit.rememberMs)
    if isKnown then call('ZREM', P .. 'held:' .. r.session, 'r' .. id) end
  end

  function limit.remaining(item)
    local out = ''
    for i, dim in ipairs(item.list) do out = out .. (i == 1 and '{' or ',') .. dim.json .. ':' .. int(dims.left(dim)) end
    return out .. '}'
  end

  -- Until everything is as at the beginning; what only a settle brings back is not waited for.
  function limit.resetMs(item)
    local ms = 0
    for _, dim in ipairs(item.list) do ms = math.max(ms, dims.reset(dim, turn.now)) end
    return math.min(ms, dims.none)
  end

  function limit.tell(type, item, id, r, more)
    emit(type, item.json, '{"limit":' .. item.json .. ',"reservation":' .. json(id) .. ',"session":' .. json(r.session) ..
      ',"agent":' .. json(r.agent) .. more .. '}')
  end

  -- `changed`: of what is used, reserved or waited for; `dirty`: of anything else that is kept.
  -- What the log is told of grants and settles: at most one a second for a limit in use, the last one included.
  local function gauge(item)
    local rows = {}
    for i, dim in ipairs(item.list) do
      local row = dims.row(dim)
      rows[i] = dim.json .. ':{"amount":' .. row[2] .. ',"used":' .. row[3] .. ',"reserved":' .. row[4] .. '}'
    end
    emit('limit.gauge', item.json, '{"limit":' .. item.json .. ',"dimensions":{' .. concat(rows, ',') .. '},"waiting":' ..
      int(item.waiting) .. '}')
    item.gaugeAt, item.stale, item.changed = turn.now, nil, true
  end
  local function wakeAt(item)
    local at = item.headAt or dims.none
    if item.stale then at = math.min(at, item.gaugeAt + 1000) end
    -- When it has room again, if nobody comes before.
    local ms = item.saturated and item.waiting == 0 and limit.resetMs(item) or 0
    if ms > 0 then at = math.min(at, turn.now + math.max(1000, ms)) end
    return at < dims.none and at or nil
  end

  -- At most so many a command: what is unpacked has to fit Lua's stack.
  local chunk = 400
  local function written(verb, key, list)
    for from = 1, #list, chunk do
      local to = math.min(from + chunk - 1, #list)
      if key then call(verb, key, unpack(list, from, to)) else call(verb, unpack(list, from, to)) end
    end
  end
  local function write()
    local saved, held = {}, {}
    for id in pairs(unsaved) do
      local n = #saved
      saved[n + 1], saved[n + 2] = P .. 'reservation:' .. id, cmsgpack.pack(reservations[id])
    end
    for id in pairs(unheld) do
      local owner = reservations[id].session
      local rows = held[owner] or {}
      local n = #rows
      held[owner], rows[n + 1], rows[n + 2] = rows, turn.nowText, 'r' .. id
    end
    written('MSET', nil, saved)
    for owner, rows in pairs(held) do written('ZADD', P .. 'held:' .. owner, rows) end
    unsaved, unheld = {}, {}
  end

  -- Must run before turn.close. Answers milliseconds to the next moment at which one of them must be looked at, or ''.
  function limit.flush()
    local soonest
    for name, item in pairs(loaded) do
      if item then
        if item.waiting > 0 and item.look then limit.pump(item) end
        if item.saturated then limit.recover(item) end
        if item.changed or item.stale then
          if turn.now - (item.gaugeAt or 0) >= 1000 then gauge(item) else item.stale = true end
        end
        local at = wakeAt(item)
        if at ~= item.wake then
          if at then call('ZADD', P .. 'limitWake', int(at), name) else call('ZREM', P .. 'limitWake', name) end
          item.wake, item.dirty = at, true
        end
        if at then soonest = math.min(soonest or at, at) end
        if item.changed or item.dirty then call('HSET', P .. 'limit:' .. name, 'now', dims.pack(item)) end
      end
    end
    loaded = {}
    write()
    return soonest and int(math.max(0, soonest - turn.now)) or ''
  end
end
