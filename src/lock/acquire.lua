#!lua flags=allow-oom
-- Acquires and releases of many connections, in the order in which they came. Each in ARGV from batchAt:
--   a session binding grant owner waitMs leaseMs maxHoldMs reason release reclaim n, then n times name node word permits
--   r session binding grant
-- Answers for each what lock.acquire or lock.release says, the epoch, and whether queues are left to go on with.
-- @include lock-ask
local at, results = batchAt, {}
local function take(count)
  at = at + count
  return unpack(ARGV, at - count, at - 1)
end
while at <= #ARGV do
  local kind, from, binding, id = take(4)
  if kind == 'r' then results[#results + 1] = { lock.release(id, from, binding) }
  else
    local owner, waitMs, leaseMs, holdMs, reason, release, reclaim, count = take(8)
    local item = { id = id, session = from, binding = binding, owner = owner, waitMs = tonumber(waitMs), lease = tonumber(leaseMs),
      hold = tonumber(holdMs), reason = reason, release = release == '1', reclaim = tonumber(reclaim), rows = {} }
    for i = 1, tonumber(count) do
      local name, node, word, permits = take(4)
      item.rows[i] = { name, node, word, tonumber(permits) }
    end
    results[#results + 1] = lock.acquire(item)
  end
  lock.pump()
end
lock.flush()
return turn.close({ results, turn.epoch, lock.left and 1 or 0 })
