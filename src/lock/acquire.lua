#!lua flags=allow-oom
-- Acquires and releases of many connections, in the order in which they came. Each is one text in ARGV from batchAt, its
-- values parted by \0 (a value in ARGV costs twenty times one in a text):
--   a session binding grant owner waitMs leaseMs maxHoldMs release reclaim n, n times name node word permits, reason
--   r session binding grant
-- Only the reason may hold anything: it is the rest. A node of the name's own text is ''.
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
  -- What has ended is out of anybody's reach: a release that comes late is no reach for another's.
  local live = not grant or grant.state == 'held' or grant.state == 'waiting'
  if said == 'notOwner' and live and speaks(from, binding) and not (grant and grant.session == from) then
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

local items, ids, results = {}, {}, {}
for i = batchAt, #ARGV do
  local text = ARGV[i]
  local kind, from, binding, id, at = struct.unpack('ssss', text)
  local item
  if kind == 'r' then item = { id = id, session = from, binding = binding }
  else
    local owner, waitMs, leaseMs, holdMs, release, reclaim, count
    owner, waitMs, leaseMs, holdMs, release, reclaim, count, at = struct.unpack('sssssss', text, at)
    local rows = {}
    for row = 1, tonumber(count) do
      local name, node, word, permits
      name, node, word, permits, at = struct.unpack('ssss', text, at)
      rows[row] = { name, node == '' and name or node, word, tonumber(permits) }
    end
    item = { id = id, session = from, binding = binding, owner = owner, waitMs = tonumber(waitMs),
      lease = tonumber(leaseMs), hold = tonumber(holdMs), reason = string.sub(text, at), release = release == '1',
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
