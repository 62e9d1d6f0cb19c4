#!lua flags=allow-oom
-- What ended sessions leave behind, and the work of sessions whose socket stayed broken past their grace. At most `most`
-- holdings a call, one event each; the ended session is forgotten with its last holding. Idempotent: whoever calls takes
-- the next page. Answers whether more is left and when the next grace runs out (milliseconds, or '').
-- @include finish
-- @include lock-grant
-- @include limit-wait
-- @include once
local left, more = tonumber(most), 0

-- By the first letter of a holding; what it weighs if that is more than one, false if there was nothing to give back.
local givers = {}
function givers.t(id, taskId, run)
  local head = run and run[STATE] == 'active' and run[SESSION] == id and task.header(taskId)
  if not head then return false end
  giveBack(head, run, 'sessionLost', { refundsMax = 0 })
  return true
end

function givers.l(id, grantId)
  local grant, known = lock.load(grantId), session(id)
  if not grant or grant.session ~= id then return false end
  local weight = grant.nodes and lock.weight(grant) or 1
  if grant.state == 'waiting' then lock.endWait(grantId, grant, known.endedAs == 'closed' and 'cancelled' or 'sessionLost')
  elseif grant.state == 'held' then
    lock.free(grantId, grant, known.endedAs == 'closed' and 'closed' or known.endedAs and 'sessionLost' or 'disconnected')
  else return false end
  -- A path is let go of at every directory above it.
  return weight
end

-- A reservation's concurrency is work and goes with the socket; its wait ends with the session only.
function givers.r(id, reservation)
  local r, known = limit.load(reservation), session(id)
  if not r or r.session ~= id then return false end
  return limit.giveBack(reservation, r, known.endedAs == 'closed' and 'closed' or known.endedAs and 'sessionLost' or 'disconnected',
    known.endedAs == 'closed' and 'cancelled' or 'sessionLost')
end

function givers.o(id, key)
  local row = once.load(key)
  if not row or row.state ~= 'inProgress' or row.session ~= id then return false end
  once.unknown(key, row, once.endOf(id))
  return true
end

-- What a broken socket is enough for stands in `held` below `top`; what waits for the end of its session, above.
local function give(id, top)
  local key, ids = P .. 'held:' .. id, {}
  local held = call('ZRANGEBYSCORE', key, '-inf', top, 'LIMIT', 0, left)
  for i, member in ipairs(held) do ids[i] = string.sub(member, 2) end
  local runs = task.runs(ids)
  for i, member in ipairs(held) do
    local giver = givers[string.sub(member, 1, 1)]
    -- A member without its thing is left from nothing we know; it must not keep the session for ever.
    local weight = giver and giver(id, ids[i], runs[ids[i]])
    if not weight then remove(key, member) end
    left = left - (tonumber(weight) or 1)
    if left <= 0 then break end
  end
  task.flush()
  lock.flushHeld()
end

for _, id in ipairs(call('ZRANGE', P .. 'ending', 0, 19)) do
  if left > 0 then give(id, '+inf') end
  if call('EXISTS', P .. 'held:' .. id) == 0 then
    call('ZREM', P .. 'ending', id)
    call('DEL', P .. 'session:' .. id)
  end
end
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'grace', '-inf', int(turn.lease), 'LIMIT', 0, 20)) do
  local top = '(' .. int(bands.kept)
  if left > 0 then give(id, top) end
  if call('ZCOUNT', P .. 'held:' .. id, '-inf', top) == 0 then call('ZREM', P .. 'grace', id) end
end
lock.pump()
lock.flush()
limit.flush()
if call('EXISTS', P .. 'ending') == 1 then more = 1 end
local soonest = call('ZRANGE', P .. 'grace', 0, 0, 'WITHSCORES')[2]
if soonest and tonumber(soonest) <= turn.lease then more = 1 end
return turn.close({ more, soonest and int(math.max(0, tonumber(soonest) - turn.lease)) or '' })
