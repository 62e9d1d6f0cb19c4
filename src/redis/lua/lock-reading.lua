-- Locks for scripts that only read (redis/lua/lock.lua tells the records). Needs reading.lua.
-- @include reading
local lease = nowMs() - skewMs()
local function text(number) return string.format('%.0f', number) end

local function grantOf(id)
  local packed = call('GET', P .. 'grant:' .. id)
  return packed and cmsgpack.unpack(packed)
end

-- Held, and neither its session nor its own lease has run out, swept or not.
local function isLive(id, grant)
  if not grant or grant.state ~= 'held' then return false end
  local deadline = call('ZSCORE', P .. 'sessions', grant.session)
  if not deadline or tonumber(deadline) <= lease then return false end
  local ends = call('ZMSCORE', P .. 'lockDue', 'e' .. id, 'h' .. id)
  return tonumber(ends[1] or 1e15) > lease and tonumber(ends[2] or 1e15) > lease
end

-- A lock's own node and, of a path, the directories above it.
local function chainOf(name)
  local chain, path = { name }, string.match(name, '^path:(.+)$')
  if not path then return chain end
  chain[2] = 'path:'
  if string.sub(path, 1, 1) == '/' and path ~= '/' then chain[3] = 'path:/' end
  local at = string.find(path, '/', 2, true)
  while at do
    chain[#chain + 1] = 'path:' .. string.sub(path, 1, at - 1)
    at = string.find(path, '/', at + 1, true)
  end
  return chain
end

-- One grant as a flat list of texts: grant, session, agent, owner, state, fence, since, ends, reason, lock, word, permits,
-- ticket, parked. `node` says which of its locks is meant.
local function rowOf(id, grant, node)
  local which = grant.rows[1]
  for _, row in ipairs(grant.rows) do
    if row[2] == node then which = row end
  end
  local at = call('ZMSCORE', P .. 'lockDue', 'e' .. id, 'h' .. id, 'w' .. id)
  local ends = math.min(tonumber(at[1] or 1e15), tonumber(at[2] or 1e15), tonumber(at[3] or 1e15))
  return { id, grant.session, grant.agent, grant.owner, grant.state, grant.fence and text(grant.fence) or '', text(grant.since),
    ends < 1e15 and text(ends + skewMs()) or '', grant.reason, which[1], which[3], text(which[4]), grant.ticket or '',
    grant.parked and '1' or '' }
end

-- Holders of a node of its own, or (`below`) of paths below it.
local function holdersOf(node, below, most, out)
  -- An end of -1 would be all there are.
  if #out >= most then return out end
  for _, id in ipairs(call('ZRANGE', P .. (below and 'lockBelow:' or 'lockHolds:') .. node, 0, most - 1 - #out)) do
    local grant = grantOf(id)
    if grant and grant.state == 'held' then out[#out + 1] = rowOf(id, grant, node) end
  end
  return out
end

-- Who waits at a node, by ticket. Parked ones stand in no queue and are not found here.
local function waitersOf(node, most)
  local found, out = {}, {}
  for _, class in ipairs({ 's', 'x', 'p', 'u' }) do
    local at = node .. '\0' .. class
    for _, member in ipairs(call('ZRANGE', P .. 'lockWaits', '[' .. at .. '\0', '(' .. at .. '\1', 'BYLEX', 'LIMIT', 0, most)) do
      found[#found + 1] = string.sub(member, #node + 4)
    end
  end
  table.sort(found)
  for i = 1, math.min(#found, most) do
    local id = string.sub(found[i], 18)
    local grant = grantOf(id)
    if grant and grant.state == 'waiting' then out[#out + 1] = rowOf(id, grant, node) end
  end
  return out
end

-- A lock by its node: name, capacity, lockDelayMs, maxHoldMs, s, x, p, u, waits, notBefore, fence, holders, waiters.
local function lockRow(node, most, whole)
  local row = call('HMGET', P .. 'lock:' .. node, 'capacity', 'lockDelayMs', 'maxHoldMs', 's', 'x', 'p', 'u', 'waits', 'notBefore', 'fence')
  local out = { node }
  for i = 1, 10 do out[i + 1] = row[i] or '0' end
  local ends = tonumber(out[10])
  out[10] = ends > lease and text(ends + skewMs()) or '0'
  local holders = holdersOf(node, false, most, {})
  if whole and string.sub(node, 1, 5) == 'path:' then
    local chain = chainOf(node)
    for i = 2, #chain do holdersOf(chain[i], false, most, holders) end
    holdersOf(node, true, most, holders)
  end
  out[12], out[13] = holders, waitersOf(node, most)
  return out
end
