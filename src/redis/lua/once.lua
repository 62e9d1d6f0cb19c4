-- The once ledger: one record a key, so that a side effect which must not happen twice is begun by one caller only.
--
-- The story this prevents: an agent begins, charges a card and is killed before it wrote that down. Whoever comes next
-- must not charge again, and must not be told that it was done either. So a holder that ends without a word (its lease
-- lapsed, its session ended, an operator took the key) leaves the record `unknown`, under a new fence: a late word of the
-- old holder is fenced out, and the next one has to find out first.
--
-- States: inProgress (held, ends by its lease or its session), done (a result or a final error), unknown, and new for what
-- failed in a way that may be tried again. `onceDue` holds the end of the lease of one in progress, else the end of its
-- keep, both on the lease clock. A holding stands in the band of `held` that a broken socket alone does not end: what is
-- guarded is outside, and knows no fence.
-- @include session
-- @include once-record
-- @include bands
local once = {}
local function onceKey(key) return P .. 'once:' .. key end

local function tellOnce(type, key, row, more)
  emit(type, json(key), '{"key":' .. json(key) .. ',"session":' .. json(row.session) .. ',"agent":' .. json(row.agent) ..
    ',"fence":' .. row.fence .. ',"attempts":' .. row.attempts .. (more or '') .. '}')
end

local function keepOnce(key, row)
  call('ZREM', P .. 'held:' .. row.session, 'o' .. key)
  call('ZADD', P .. 'onceDue', int(turn.lease + row.keep), key)
end

-- The holder is out without a word. `more`: what an operator said, as a member of the event.
function once.unknown(key, row, reason, more)
  tellOnce('once.unknown', key, row, ',"reason":"' .. reason .. '"' .. (more or ''))
  row.state, row.fence, row.ended = 'unknown', int(nextFence()), nil
  call('HSET', onceKey(key), 'state', 'unknown', 'fence', row.fence)
  call('HDEL', onceKey(key), 'attempt', 'ended')
  keepOnce(key, row)
end

local function forget(key)
  call('DEL', onceKey(key))
  call('ZREM', P .. 'onceDue', key)
end

-- How a session ended, as the word for what it left behind.
function once.endOf(id) return session(id).endedAs == 'closed' and 'closed' or 'sessionLost' end

-- The record as it is now, or nil: a lease, a session or a keep that is over ends here, whether a sweep has seen it or not.
function once.load(key)
  local row = call('HMGET', onceKey(key), 'state', 'fingerprint', 'fence', 'session', 'agent', 'attempt', 'attempts',
    'leaseMs', 'keepMs', 'as', 'ended')
  if not row[1] then return nil end
  local known = { state = row[1], fingerprint = row[2], fence = row[3], session = row[4], agent = row[5], attempt = row[6],
    attempts = row[7], lease = tonumber(row[8]), keep = tonumber(row[9]), as = row[10], ended = row[11],
    ends = tonumber(call('ZSCORE', P .. 'onceDue', key) or 0) }
  if known.state ~= 'inProgress' then
    if known.ends > turn.lease then return known end
    forget(key)
    return nil
  end
  if known.ends <= turn.lease then once.unknown(key, known, 'leaseLapsed')
  elseif not session(known.session).alive then once.unknown(key, known, once.endOf(known.session)) end
  return known
end

-- Hands the key to `caller` under a new fence.
function once.begin(key, row, caller, ask)
  local known, as = session(caller), row and row.state == 'unknown' and 'unknown' or 'new'
  row = { session = caller, agent = known.agent, fence = int(nextFence()), attempts = int((row and row.attempts or 0) + 1) }
  call('HSET', onceKey(key), 'state', 'inProgress', 'fingerprint', ask.fingerprint, 'fence', row.fence, 'session', caller,
    'agent', row.agent, 'attempt', ask.attempt, 'attempts', row.attempts, 'leaseMs', ask.leaseMs, 'keepMs', ask.keepMs, 'as', as)
  call('HDEL', onceKey(key), 'ended')
  call('ZADD', P .. 'held:' .. caller, int(bands.kept + turn.now), 'o' .. key)
  local ends = turn.lease + tonumber(ask.leaseMs)
  call('ZADD', P .. 'onceDue', int(ends), key)
  tellOnce('once.began', key, row, ',"state":"' .. as .. '","leaseEndsAt":"' .. iso(ends + turn.skew) .. '"')
  return as
end
