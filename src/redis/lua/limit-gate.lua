-- Whether a limit gives anything away at all. Somebody met a 429 (`penalize`): nobody is granted anything until it is
-- over, then one alone tries it, and only when that one has come through does it go on, at half the rate at first and
-- evenly spread: a crowd that is let loose at once meets the next 429 together.
-- phase: nil → blocked → probing (one is out) → ramp → nil
-- @include limit
do
  local function period(item)
    local most = 0
    for _, dim in ipairs(item.list) do most = math.max(most, dim.perMs or 0) end
    return math.min(item.rampMs, most > 0 and most or item.rampMs)
  end

  -- The share of its rate that a limit gives now: a half for one period, then rising to all of it over another.
  local function share(item)
    if item.phase ~= 'ramp' then return 1 end
    local over = (turn.now - item.rampAt) / period(item)
    if over >= 2 then
      item.phase, item.rampAt, item.dirty = nil, nil, true
      for _, dim in ipairs(item.list) do dim.paceAt = nil end
      return 1
    end
    return over < 1 and 0.5 or over / 2
  end

  -- Milliseconds until the gate lets somebody through; 0 if it does now; none if it waits for the one that tries.
  function limit.gate(item)
    if item.phase == 'blocked' then return math.max(0, item.blockedUntil - turn.now) end
    return item.phase == 'probing' and dims.none or 0
  end

  -- Milliseconds until the ramp lets `n` of a dimension through; none if it never does.
  function limit.pace(item, dim, n)
    local part = share(item)
    if part == 1 then return 0 end
    if dim.mode ~= 'held' then return math.max(0, (dim.paceAt or 0) - turn.now) end
    local sum = dim.total + n
    if dim.total == 0 or sum <= math.max(1, floor(dim.amount * part)) then return 0 end
    -- Nothing but time raises the share, so who waits for it has to be looked at when it has come so far.
    if sum > dim.amount then return dims.none end
    return math.max(1, math.ceil(item.rampAt + 2 * period(item) * sum / dim.amount - turn.now))
  end

  function limit.passed(item, id)
    if item.phase == 'blocked' then item.phase, item.probe = 'probing', id end
    if item.phase ~= 'ramp' then return end
    local part, r = share(item), limit.load(id)
    for name, n in pairs(r.cost) do
      local dim = item.dims[name]
      if dim and dim.perMs then
        dim.paceAt = math.ceil(math.max(dim.paceAt or 0, turn.now) + n * dim.perMs / (dim.amount * part))
      end
    end
  end

  function limit.block(item, afterMs, rampMs)
    item.blockedUntil = math.max(item.blockedUntil or 0, turn.now + afterMs)
    item.phase, item.probe, item.rampMs, item.dirty, item.look = 'blocked', nil, rampMs, true, true
  end

  -- The one that tries has come through.
  function limit.cleared(item)
    item.phase, item.probe, item.rampAt, item.blockedUntil = 'ramp', nil, turn.now, nil
    item.dirty, item.look = true, true
    emit('limit.recovered', item.json, '{"limit":' .. item.json .. ',"reason":"probe"}')
  end

  -- It has ended without a word: the next one tries.
  function limit.unproven(item) item.phase, item.probe, item.dirty, item.look = 'blocked', nil, true, true end
end
