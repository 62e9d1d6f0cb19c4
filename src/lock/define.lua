-- What holds for a lock; the defaults are what an undefined one has. Other values than now need `change`: two programs
-- that disagree should hear of it. Permits that are held stay held, whatever the capacity becomes; nothing is granted until
-- the sum fits again. Args: display, name, capacity (0: a read/write lock), lockDelayMs, maxHoldMs (0: none), change.
-- @include lock-grant
local node = lock.node(name)
local new = { capacity = tonumber(capacity), lockDelayMs = tonumber(lockDelayMs), maxHoldMs = tonumber(maxHoldMs) }
local defined = node.capacity + node.lockDelayMs + node.maxHoldMs > 0
local inUse = node.s + node.x + node.p + node.waits > 0
local other = new.capacity ~= node.capacity
local differs = other or new.lockDelayMs ~= node.lockDelayMs or new.maxHoldMs ~= node.maxHoldMs
if differs and change ~= '1' and (defined or inUse and other) then
  return refuse('CONFLICT', '{"message":"the lock is defined otherwise; change:true changes it","capacity":' ..
    (node.capacity > 0 and int(node.capacity) or 'null') .. ',"lockDelayMs":' .. int(node.lockDelayMs) .. ',"maxHoldMs":' ..
    (node.maxHoldMs > 0 and int(node.maxHoldMs) or 'null') .. '}')
end
if differs then
  for field, value in pairs(new) do node[field] = value end
  emit('lock.defined', json(display), '{"lock":' .. json(display) ..
    (new.capacity > 0 and ',"capacity":' .. int(new.capacity) or '') .. ',"lockDelayMs":' .. int(new.lockDelayMs) ..
    (new.maxHoldMs > 0 and ',"maxHoldMs":' .. int(new.maxHoldMs) or '') .. '}')
  -- Waits that can never be granted any more end here; beyond this many, when they come to the front.
  if other then
    for _, class in ipairs(lock.classes) do
      local low, high = lock.range(node, class)
      for _, member in ipairs(call('ZRANGE', P .. 'lockWaits', low, high, 'BYLEX', 'LIMIT', 0, 300)) do
        local id = string.sub(member, #node.name + 21)
        if lock.isSpent() then break end
        local grant = lock.load(id)
        if grant and grant.state == 'waiting' and lock.unfit(node, class, grant) then lock.endWait(id, grant, 'neverFits') end
      end
    end
  end
  lock.lookAll(node)
  lock.pump()
end
lock.flush()
return turn.close({ lock.left and 1 or 0 })
