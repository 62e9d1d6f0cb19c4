-- For scripts that only read: the same records as redis/lua/task.lua, without a turn. A read must not begin an epoch,
-- write a clock or count as a change.
local P = string.sub(KEYS[1], 1, -5)
local call = redis.call
local function refuse(code, details) return redis.error_reply(code .. ' ' .. (details or 'refused')) end
local function nowMs()
  local clock = call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local function leaseMs() return nowMs() - tonumber(call('HGET', KEYS[1], 'skew') or 0) end

-- A run as a flat list of texts ('' for nothing), in the order of task.lua; history stays packed as JSON rows.
local function flat(packed)
  if not packed then return '' end
  local run, out = cmsgpack.unpack(packed), {}
  for i, value in ipairs(run) do
    if i == 21 then out[i] = value and cjson.encode(value) or ''
    elseif type(value) == 'number' then out[i] = string.format('%.0f', value)
    else out[i] = value or '' end
  end
  return out
end
