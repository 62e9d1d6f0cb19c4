-- silent: it only reads.
-- Whether a fence is one that holds the lock now; for a path, also one that holds a directory above it. Args: name, fence.
-- Answers 1 or 0, and the last fence given here.
-- @include lock-reading
local valid, current = 0, 0
for _, node in ipairs(chainOf(name)) do
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'lockHolds:' .. node, fence, fence)) do
    if isLive(id, grantOf(id)) then valid = 1 end
  end
  current = math.max(current, tonumber(call('HGET', P .. 'lock:' .. node, 'fence') or 0))
end
return { valid, text(current) }
