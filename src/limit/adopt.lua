#!lua flags=allow-oom
-- What a daemon granted by itself while Redis was away. It was given, so it is charged whatever is left: a debt is paid by
-- who comes next. What is still held becomes a reservation like any other, under its fence, if its session has lived
-- through it; else it is spent. Twice is harmless for what is held: it goes by the reservation. Each in ARGV from batchAt:
-- h (held) or s (settled), reservation, session, limit, fence, leaseMs, weight, key, n, then n times dimension amount.
-- @include limit-wait
local at = batchAt
while at <= #ARGV do
  local kind, id, owner, name, fence, leaseMs, weight, key, count = unpack(ARGV, at, at + 8)
  local item, cost = limit.get(name), {}
  for i = at + 9, at + 8 + 2 * tonumber(count), 2 do
    if item and item.dims[ARGV[i]] then cost[ARGV[i]] = tonumber(ARGV[i + 1]) end
  end
  at = at + 9 + 2 * tonumber(count)
  local known = session(owner)
  if item and not limit.load(id) then
    local r = { limit = name, session = owner, agent = known.agent, cost = cost, weight = tonumber(weight), lease = tonumber(leaseMs),
      key = key, fence = tonumber(fence) }
    turn.last = math.max(turn.last, r.fence)
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
