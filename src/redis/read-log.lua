-- A page of the log behind `after`, with what decides whether `after` still means anything: both from one moment, so
-- that nothing can be trimmed between the question and the answer. Reads only; bounded by countMax and bytesMax.
local P = string.sub(KEYS[1], 1, -5)
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'offset', 'tail')
if not meta[1] then return false end
local epochs = redis.call('ZRANGE', P .. 'epochs', 0, -1, 'WITHSCORES') -- at most 64
local entries, bytes = {}, 0
local from, wanted = '(' .. after .. '-0', tonumber(countMax)
while #entries < wanted and bytes < tonumber(bytesMax) do
  local page = redis.call('XRANGE', P .. 'log', from, '+', 'COUNT', 8)
  for _, entry in ipairs(page) do
    if #entries == wanted or bytes >= tonumber(bytesMax) then break end
    entries[#entries + 1] = entry
    bytes = bytes + #entry[2][12] + 200
    from = '(' .. entry[1]
  end
  if #page < 8 then break end
end
return { meta[1], meta[2], meta[3] or '0', epochs, entries }
