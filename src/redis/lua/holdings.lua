-- What a session holds, as rows {kind, name, fence, queue, sinceAt, endsAt}; of a lock and of a wait for one, `name` is its
-- grant, and its state and the names of its locks follow. Written for writing scripts and for reading ones: it needs P and
-- call only, and is told the skew between the lease clock and TIME.
-- @include pages
-- @include places
-- @include bands
local function lockHolding(id, grantId, score, skew)
  local packed = call('GET', P .. 'grant:' .. grantId)
  local grant = packed and cmsgpack.unpack(packed)
  if not grant or grant.session ~= id or not grant.rows then return nil end
  local at = call('ZMSCORE', P .. 'lockDue', 'e' .. grantId, 'h' .. grantId, 'w' .. grantId)
  local ends = math.min(tonumber(at[1] or 1e15), tonumber(at[2] or 1e15), tonumber(at[3] or 1e15))
  local names = {}
  for i, row in ipairs(grant.rows) do names[i] = row[1] end
  return { 'lock', grantId, grant.fence and string.format('%.0f', grant.fence) or '', '', string.format('%.0f', score % bands.width),
    ends < 1e15 and string.format('%.0f', ends + skew) or '', grant.state, names }
end

local function reservationHolding(id, name, score, skew)
  local packed = call('GET', P .. 'reservation:' .. name)
  local r = packed and cmsgpack.unpack(packed)
  if not r or r.session ~= id or not r.cost then return nil end
  local waits = r.state == 'waiting'
  local ends = call('ZSCORE', P .. 'limitDue', (waits and 'w' or 'e') .. name)
  return { 'reservation', name, r.fence and string.format('%.0f', r.fence) or '', '', string.format('%.0f', score % bands.width),
    ends and string.format('%.0f', ends + skew) or '', waits and 'waiting' or 'held', { r.limit } }
end

local function onceHolding(id, key, score, skew)
  local row = call('HMGET', P .. 'once:' .. key, 'state', 'session', 'fence')
  if row[1] ~= 'inProgress' or row[2] ~= id then return nil end
  return { 'once', key, row[3], '', string.format('%.0f', score % bands.width),
    string.format('%.0f', tonumber(call('ZSCORE', P .. 'onceDue', key) or 0) + skew) }
end

-- Bytes that a row takes on the wire at most, `each` of them whatever is in it: in the texts only `"` and `\` are written
-- as two. The id stands in the lease and may be the name, the first lock is the name too.
local function widthOf(row, each)
  local bytes = each + 4 * #row[2] + 2 * #row[4]
  for i, name in ipairs(row[8] or {}) do bytes = bytes + (i == 1 and 4 or 2) * #name + 3 end
  return bytes
end

-- A page of at most `limit` rows and `bytes` (but for a single row), and where the next begins, or ''.
local function holdingsOf(id, cursor, limit, skew, bytes, each)
  local rows = pageOf(P .. 'held:' .. id, cursor, limit)
  if not rows then return nil end
  local names = {}
  for i = 1, #rows, 2 do
    if string.sub(rows[i], 1, 1) == 't' then names[#names + 1] = P .. 'run:' .. string.sub(rows[i], 2) end
  end
  local packed, at, out = #names > 0 and call('MGET', unpack(names)) or {}, 0, {}
  for i = 1, #rows, 2 do
    local letter, name, row = string.sub(rows[i], 1, 1), string.sub(rows[i], 2), nil
    if letter == 't' then
      at = at + 1
      local run = packed[at] and cmsgpack.unpack(packed[at])
      if run and run[STATE] == 'active' and run[SESSION] == id then
        local lease = run[LEASE] and call('ZSCORE', P .. 'leases', 'l' .. name)
        row = { 'task', name, string.format('%.0f', run[FENCE]), run[QUEUE] or '', rows[i + 1],
          lease and string.format('%.0f', tonumber(lease) + skew) or '' }
      end
    elseif letter == 'l' then row = lockHolding(id, name, tonumber(rows[i + 1]), skew)
    elseif letter == 'r' then row = reservationHolding(id, name, tonumber(rows[i + 1]), skew)
    elseif letter == 'o' then row = onceHolding(id, name, tonumber(rows[i + 1]), skew)
    end
    if row then
      bytes = bytes - widthOf(row, each)
      if bytes < 0 and #out > 0 then return out, rows[i - 1] .. ' ' .. rows[i - 2] end
      out[#out + 1] = row
    end
  end
  return out, #rows == 2 * limit and rows[#rows] .. ' ' .. rows[#rows - 1] or ''
end
