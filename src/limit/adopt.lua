#!lua flags=allow-oom
-- What a daemon granted by itself while Redis was away. It was given, so it is charged whatever is left: a debt is paid by
-- who comes next. What is still held becomes a reservation like any other, under its fence, if its session has lived
-- through it; else it is spent. Twice is harmless: it goes by the reservation. What Redis knows of it already is from a call
-- whose reply was lost, of this script or of the ask itself: the daemon's word is what its holder was told. Each in ARGV from batchAt:
-- h (held) or s (settled), reservation, session, limit, fence, leaseMs, weight, key, n, then n times dimension amount.
-- @include limit-wait
-- Whose reply was lost: what has become of it since.
local function goOn(item, id, r, kind, spent, fence)
  if r.state == 'waiting' then limit.overtaken(item, id, r, math.max(fence, r.fence or 0)) end
  if r.state ~= 'granted' then return end
  if kind == 's' then limit.settle(item, id, r, spent)
  elseif fence > r.fence then
    r.fence = fence
    limit.save(id, r)
    -- Its holder counts from the later answer, the daemon's.
    if r.lease then call('ZADD', P .. 'limitDue', int(turn.lease + r.lease), 'e' .. id) end
  end
end

local at = batchAt
while at <= #ARGV do
  local kind, id, owner, name, fence, leaseMs, weight, key, count = unpack(ARGV, at, at + 8)
  local item, cost = limit.get(name), {}
  for i = at + 9, at + 8 + 2 * tonumber(count), 2 do
    if item and item.dims[ARGV[i]] then cost[ARGV[i]] = tonumber(ARGV[i + 1]) end
  end
  at = at + 9 + 2 * tonumber(count)
  local known, before = session(owner), limit.load(id)
  turn.last = math.max(turn.last, tonumber(fence))
  if item and before and before.session == owner and before.limit == name then
    goOn(item, id, before, kind, cost, tonumber(fence))
  elseif item and not before then
    local r = { limit = name, session = owner, agent = known.agent, cost = cost, weight = tonumber(weight), lease = tonumber(leaseMs),
      key = key, fence = tonumber(fence) }
    if kind == 'h' and known.alive then limit.adopt(item, id, r)
    else
      for dimension, n in pairs(cost) do
        local dim = item.dims[dimension]
        if dim.mode ~= 'held' then dims.charge(dim, n, turn.now) end
      end
      limit.remember(id, r, kind == 's' and 'settled' or 'lost')
    end
    item.changed, item.look = true, true
  end
end
return turn.close({ limit.flush() })
