#!lua flags=allow-oom
-- Acquires and releases of many connections, in the order in which they came. Each in ARGV from batchAt:
--   a session binding grant owner waitMs leaseMs maxHoldMs reason release reclaim n, then n times name node word permits
--   r session binding grant
-- Answers for each what lock.acquire or lock.release says, the epoch, whether queues are left to go on with, and who was
-- granted what it waited for (lock.news).
-- @include lock-ask
-- A refusal that shows a mistake, or that somebody reaches for what is another's, stands in the log although it changed
-- nothing: who looks into it later was not there. HELD is no mistake, and who gives back what he has lost is told so.
local audited = { DEADLOCK = true, KIND_MISMATCH = true }
local function refused(from, id, more, lockJson)
  emit('lock.refused', lockJson or json(id), '{' .. (lockJson and '"lock":' .. lockJson .. ',' or '') .. '"grant":' .. json(id) ..
    ',"session":' .. json(from) .. ',"agent":' .. json(session(from).agent) .. more .. '}')
end

local function release(id, from, binding)
  local said = lock.release(id, from, binding)
  local grant = lock.load(id)
  if said == 'notOwner' and speaks(from, binding) and not (grant and grant.session == from) then
    refused(from, id, ',"code":"NOT_OWNER"', grant and grant.rows and json(grant.rows[1][1]))
  end
  return said
end

local function acquire(item)
  local said = lock.acquire(item)
  if string.byte(said[1]) ~= 33 then return said end
  local code, details = string.match(said[1], '^!(%u[%u_]+) ?{?(.-)}?$')
  if audited[code] then
    refused(item.session, item.id, (item.owner ~= '' and ',"owner":' .. json(item.owner) or '') .. ',"code":"' .. code .. '"' ..
      (code == 'DEADLOCK' and ',' .. details or ''), json(item.rows[1][1]))
  end
  return said
end

local at, items, ids, results = batchAt, {}, {}, {}
while at <= #ARGV do
  local kind, from, binding, id = unpack(ARGV, at, at + 3)
  at = at + 4
  local item
  if kind == 'r' then item = { id = id, session = from, binding = binding }
  else
    local owner, waitMs, leaseMs, holdMs, reason, release, reclaim, count = unpack(ARGV, at, at + 7)
    at = at + 8
    local rows = {}
    for i = 1, tonumber(count) do
      local name, node, word, permits = unpack(ARGV, at, at + 3)
      rows[i] = { name, node, word, tonumber(permits) }
      at = at + 4
    end
    item = { id = id, session = from, binding = binding, owner = owner, waitMs = tonumber(waitMs),
      lease = tonumber(leaseMs), hold = tonumber(holdMs), reason = reason, release = release == '1',
      reclaim = tonumber(reclaim), rows = rows }
  end
  items[#items + 1], ids[#ids + 1] = item, id
end
lock.loadAll(ids)
for i, item in ipairs(items) do
  results[i] = item.rows and acquire(item) or { release(item.id, item.session, item.binding) }
  lock.pump()
end
lock.flush()
return turn.close({ results, turn.epoch, lock.left and 1 or 0, lock.news })
