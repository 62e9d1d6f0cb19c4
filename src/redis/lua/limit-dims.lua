-- How the dimensions of a limit count: arithmetic on what limit:<name> holds, for writing scripts and for reading ones.
-- Amounts are integers and stay so: a refund gives back exactly what was taken.
--   window  every charge is kept until it is older than the window, in slices of a sixtieth that count as their youngest
--           charge: in no span of perMs is more than the amount granted, and at most a sixtieth of the span is given away
--   bucket  a level that fills up by amount a perMs, up to burst; `rest` is the part of an amount that is under way
--   sum     a budget: what is spent comes back by a refund only
--   held    concurrency: taken by the grant, free again with its end, however it ends
-- A debt is a remainder below zero. Instants are Redis' TIME; where it went back they are moved with it, so that nothing
-- is frozen for as long as the clock went back, and nothing is given twice.
local dims = { none = 9e15, states = { 'reserved', 'total', 'level', 'rest', 'at', 'ring', 'cap', 'capUntil', 'capSince',
  'paceAt', 'now' } }
do
  local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
  local modes = {}

  local function summed(dim) return dim.amount - dim.total end
  local function add(dim, n) dim.total = dim.total + n end
  local function sub(dim, n) dim.total = dim.total - n end
  modes.sum = { left = summed, charge = add, refund = sub, wait = function() return dims.none end,
    reset = function() return 0 end }
  modes.held = modes.sum

  modes.window = { left = summed }
  function modes.window.advance(dim, now)
    local ring, from = dim.ring, 1
    while ring[from] and now - ring[from + 1] > dim.perMs do
      dim.total = dim.total - ring[from + 2]
      from = from + 3
    end
    if from == 1 then return end
    dim.ring = {}
    for i = from, #ring do dim.ring[#dim.ring + 1] = ring[i] end
  end
  function modes.window.charge(dim, n, now)
    local ring, size = dim.ring, #dim.ring
    dim.total = dim.total + n
    if size > 0 and now - ring[size - 2] < max(1, dim.perMs / 60) then
      ring[size - 1], ring[size] = now, ring[size] + n
    else ring[size + 1], ring[size + 2], ring[size + 3] = now, now, n end
  end
  -- Back into the slice it was taken from; from one that is too old to count nothing comes back.
  function modes.window.refund(dim, n, _, at)
    local ring = dim.ring
    for i = 1, #ring, 3 do
      if ring[i] <= at and at <= ring[i + 1] then
        local back = min(n, ring[i + 2])
        ring[i + 2], dim.total = ring[i + 2] - back, dim.total - back
        return
      end
    end
  end
  function modes.window.wait(dim, n, now)
    local ring, left = dim.ring, dim.amount - dim.total
    for i = 1, #ring, 3 do
      left = left + ring[i + 2]
      if left >= n then return ring[i + 1] + dim.perMs + 1 - now end
    end
    return dims.none
  end
  function modes.window.reset(dim, now)
    local ring = dim.ring
    return #ring > 0 and dim.total > 0 and ring[#ring - 1] + dim.perMs + 1 - now or 0
  end

  modes.bucket = { left = function(dim) return dim.level end }
  function modes.bucket.advance(dim, now)
    local gained = (now - dim.at) * dim.amount + dim.rest
    local whole = floor(gained / dim.perMs)
    dim.level, dim.rest, dim.at = dim.level + whole, gained - whole * dim.perMs, now
    if dim.level >= dim.burst then dim.level, dim.rest = dim.burst, 0 end
  end
  function modes.bucket.charge(dim, n) dim.level = dim.level - n end
  function modes.bucket.refund(dim, n) dim.level = min(dim.burst, dim.level + n) end
  function modes.bucket.wait(dim, n)
    return ceil(((n - dim.level) * dim.perMs - dim.rest) / dim.amount)
  end
  function modes.bucket.reset(dim)
    return dim.level < dim.burst and modes.bucket.wait(dim, dim.burst) or 0
  end

  -- What a dimension begins with. One whose way of counting has changed owes what is reserved of it.
  local function fresh(row, now, reserved)
    local state = { reserved = reserved, total = reserved, mode = row.mode }
    if row.mode == 'window' then state.ring = reserved > 0 and { now, now, reserved } or {}
    elseif row.mode == 'bucket' then state.level, state.rest, state.at = row.burst - reserved, 0, now end
    return state
  end

  local function moved(item, back)
    local function earlier(of, field) if of[field] then of[field] = of[field] - back end end
    for _, field in ipairs({ 'blockedUntil', 'rampAt', 'gaugeAt', 'reportAt' }) do earlier(item, field) end
    for _, state in pairs(item.dims) do
      for _, field in ipairs({ 'at', 'capUntil', 'capSince', 'paceAt' }) do earlier(state, field) end
      for i = 1, state.ring and #state.ring or 0, 3 do
        state.ring[i], state.ring[i + 1] = state.ring[i] - back, state.ring[i + 1] - back
      end
    end
  end

  -- A limit as it is at `now`, from its definition and what was so when it was written last.
  function dims.open(name, definition, packed, now)
    local def = cmsgpack.unpack(definition)
    local item = packed and cmsgpack.unpack(packed) or { at = now, dims = {}, v = 0, waiting = 0 }
    if item.at > now then moved(item, item.at - now) end
    item.name, item.def, item.list, item.at = name, def, {}, now
    item.parked = item.parked or 0
    local states = item.dims
    item.dims, item.dropped = {}, {}
    for i, row in ipairs(def.dims) do
      local dim = states[row.name]
      if not dim then dim = fresh(row, now, 0) elseif dim.mode ~= row.mode then dim = fresh(row, now, dim.reserved) end
      dim.name, dim.json, dim.mode, dim.perMs, dim.burst = row.name, cjson.encode(row.name), row.mode, row.perMs, row.burst
      dim.most = def.adaptive and def.adaptive.dimension == row.name and def.adaptive.max or row.burst or row.amount
      dim.amount = dim.now or row.amount
      if modes[dim.mode].advance then modes[dim.mode].advance(dim, now) end
      if dim.capUntil and dim.capUntil <= now then dim.cap, dim.capUntil, dim.capSince = nil, nil, nil end
      item.list[i], item.dims[row.name], states[row.name] = dim, dim, nil
    end
    -- A dimension that a new definition left out stays for as long as something is reserved of it: defined again it must
    -- not be given a second time, and what ends then must be known to have been taken.
    for dimension, state in pairs(states) do
      if state.reserved > 0 then item.dropped[dimension] = state end
    end
    return item
  end

  function dims.pack(item)
    local states = {}
    local function put(name, dim)
      local state = { mode = dim.mode }
      for _, field in ipairs(dims.states) do state[field] = dim[field] end
      states[name] = state
    end
    for name, dim in pairs(item.dims) do put(name, dim) end
    for name, dim in pairs(item.dropped) do
      if dim.reserved > 0 then put(name, dim) end
    end
    local out = { dims = states }
    for _, field in ipairs({ 'at', 'v', 'waiting', 'parked', 'blockedUntil', 'phase', 'probe', 'rampAt', 'rampMs', 'saturated',
      'gaugeAt', 'stale', 'wake', 'reports', 'failures', 'latency', 'reportAt' }) do out[field] = item[field] end
    return cmsgpack.pack(out)
  end

  -- What may be granted of it now. What a provider has said (`cap`) only tightens.
  function dims.left(dim)
    local left = modes[dim.mode].left(dim)
    return dim.cap and min(left, dim.cap) or left
  end

  function dims.charge(dim, n, now)
    modes[dim.mode].charge(dim, n, now)
    if dim.cap then dim.cap = dim.cap - n end
  end

  function dims.refund(dim, n, now, at)
    modes[dim.mode].refund(dim, n, now, at)
    if dim.cap and at >= dim.capSince then dim.cap = dim.cap + n end
  end

  -- Milliseconds until `n` fits; 0 if it does; `none` if no passing of time brings it. What is larger than an adaptive
  -- amount has become is granted alone: it was promised up to `max`.
  function dims.wait(dim, n, now)
    local mode, ms = modes[dim.mode], 0
    if not dim.cap and n <= mode.left(dim) then return 0 end
    local alone = dim.mode ~= 'bucket' and n > dim.amount and dim.total <= 0
    if n > mode.left(dim) and not alone then
      ms = mode.wait(dim, dim.mode == 'bucket' and n or min(n, dim.amount), now)
    end
    if dim.cap and n > dim.cap then ms = max(ms, dim.capUntil - now) end
    return ms
  end

  function dims.reset(dim, now) return modes[dim.mode].reset(dim, now) end

  -- Per dimension: how much there is, what live reservations have of it, what is gone otherwise, what is left.
  function dims.row(dim)
    local size, left = dim.burst or dim.amount, modes[dim.mode].left(dim)
    local fmt = function(n) return string.format('%.0f', n) end
    return { dim.name, fmt(dim.amount), fmt(max(0, size - left - dim.reserved)), fmt(dim.reserved), fmt(dims.left(dim)) }
  end
end
