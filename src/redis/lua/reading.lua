-- @include places
-- For scripts that only read: the same records as redis/lua/record.lua, without a turn. A read must not begin an epoch,
-- write a clock or count as a change.
local P = string.sub(KEYS[1], 1, -5)
local call = redis.call
local function refuse(code, details) return redis.error_reply(code .. ' ' .. (details or 'refused')) end
local function nowMs()
  local clock = call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end
-- What the lease clock is behind TIME, with the jump that the next turn is going to find (redis/lua/turn.lua): after an
-- outage a reader must not take everybody for expired before somebody writes.
local function skewMs()
  local row = call('HMGET', KEYS[1], 'skew', 'seen')
  local ahead = row[2] and nowMs() - tonumber(row[2]) or 0
  return tonumber(row[1] or 0) + ((ahead > 5000 or ahead < 0) and ahead or 0)
end

-- History as JSON rows of texts: cjson prints a fence as 1.79595e+15.
local function rowsOf(history)
  local rows = {}
  for i, row in ipairs(history) do
    local texts = {}
    for j, value in ipairs(row) do
      texts[j] = type(value) == 'number' and string.format('%.0f', value) or value or ''
    end
    rows[i] = texts
  end
  return cjson.encode(rows)
end

-- A run as a flat list of texts ('' for nothing), in the order of record.lua; history as JSON rows.
local function flat(packed)
  if not packed then return '' end
  local run, out = cmsgpack.unpack(packed), {}
  for i, value in ipairs(run) do
    if type(value) == 'table' then out[i] = rowsOf(value)
    elseif type(value) == 'number' then out[i] = string.format('%.0f', value)
    else out[i] = value or '' end
  end
  return out
end
