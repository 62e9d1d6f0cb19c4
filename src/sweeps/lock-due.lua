#!lua flags=allow-oom
-- The clocks of locks: ends of waits, own leases, longest holds, delays, the grace after an epoch, and queues that were
-- too long for one script. At most 100 a call, or as many as their nodes allow. Answers milliseconds to the next one, or ''.
-- @include lock-grant
local due = P .. 'lockDue'

-- Every queue there is, from `from` on.
local function lookEverywhere(from)
  for _ = 1, 200 do
    local found = call('ZRANGE', P .. 'lockWaits', from == '' and '-' or '(' .. from, '+', 'BYLEX', 'LIMIT', 0, 1)[1]
    if not found then return end
    local name, class = string.match(found, '^(%Z*)%z(%Z*)%z')
    lock.look(lock.node(name), class)
    from = name .. '\0' .. class .. '\1'
  end
  call('ZADD', due, int(turn.lease), 'g' .. from)
  lock.left = true
end

local ends = { e = 'leaseLapsed', h = 'maxHold' }
local members = call('ZRANGEBYSCORE', due, '-inf', int(turn.lease), 'LIMIT', 0, 100)
for _, member in ipairs(members) do
  if lock.isSpent() then break end
  local letter, name = string.sub(member, 1, 1), string.sub(member, 2)
  call('ZREM', due, member)
  if letter == 'd' then
    lock.lookAll(lock.node(name))
    lock.windDelay(lock.node(name))
  elseif letter == 'g' then lookEverywhere(name)
  elseif letter == 'p' then
    local node, class, from = string.match(name, '^(%Z*)%z(%Z*)%z(.*)$')
    lock.look(lock.node(node), class, from)
  else
    local grant = lock.load(name)
    if grant and letter == 'w' and grant.state == 'waiting' then lock.endWait(name, grant, 'timeout')
    elseif grant and ends[letter] and grant.state == 'held' then lock.free(name, grant, ends[letter]) end
  end
end
lock.pump()
lock.flush()
turn.touched = #members > 0
local soonest = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
return turn.close({ soonest and int(math.max(0, tonumber(soonest) - turn.lease)) or '' })
