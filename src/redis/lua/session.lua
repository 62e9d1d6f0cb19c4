-- Who calls. A session may have run out although no sweep has noticed yet, and an older socket of a resumed session may
-- still have frames on their way: so every script asks for both, the deadline and the binding, before it believes.
-- @include turn
local sessions = {}

local function session(id)
  local known = sessions[id]
  if known then return known end
  local deadline = call('ZSCORE', P .. 'sessions', id)
  local row = call('HMGET', P .. 'session:' .. id, 'agent', 'binding', 'ended', 'tenant', 'ttlMs',
    'away', 'graceMs')
  known = {
    id = id, agent = row[1] or '', binding = row[2], tenant = row[4], ttl = tonumber(row[5]), exists = row[1] and true or false,
    ended = row[3] and true or false, endedAs = row[3], away = row[6] and true or false, grace = tonumber(row[7]),
    alive = row[1] and deadline and tonumber(deadline) > turn.lease and not row[3] or false,
  }
  known.holder = '"session":' .. json(id) .. ',"agent":' .. json(known.agent)
  sessions[id] = known
  return known
end

-- True if the session lives and the caller's socket is the one it is bound to.
local function speaks(id, binding)
  local known = session(id)
  return known.alive and known.binding == binding
end

-- The deadline of a living session that was heard `agoMs` ago. It counts from that frame and only rises.
local function renew(known, agoMs)
  call('ZADD', P .. 'sessions', 'XX', 'GT', int(turn.lease + known.ttl - agoMs), known.id)
end
