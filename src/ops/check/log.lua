-- The end of the log: no hole, counts as they are said, the counters of the namespace where the stream ends. Args: limit.
-- Answers findings as rows {id, what, have, expected}, and how many entries were looked at.
-- @include reading
local rows = {}
local function expect(id, what, have, expected)
  if tostring(have) ~= tostring(expected) then rows[#rows + 1] = { id, what, tostring(have), tostring(expected) } end
end
local function int(number) return string.format('%.0f', number) end
local meta = call('HMGET', KEYS[1], 'offset', 'epoch', 'tail')
if not meta[1] then return { {}, 0 } end
local entries = call('XREVRANGE', P .. 'log', '+', '-', 'COUNT', limit)
local below
for _, entry in ipairs(entries) do
  local offset, fields = tonumber(string.match(entry[1], '^(%d+)')), {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  if not below then
    expect('head', 'the last entry of the log', int(offset), meta[1])
    expect('epoch', 'its epoch', fields.epoch, meta[2])
  else expect('hole', 'the entry before ' .. int(below + 1), int(offset), int(below)) end
  local _, breaks = string.gsub(fields.events or '', '\n', '\n')
  expect('count', 'events of the entry ' .. int(offset), breaks + 1, fields.n)
  below = offset - tonumber(fields.n or 1)
end
if #entries == 0 and tonumber(meta[1]) > tonumber(meta[3] or 0) then expect('head', 'entries in the log', 0, int(tonumber(meta[1]) - tonumber(meta[3] or 0))) end
if below and #entries < tonumber(limit) and below > tonumber(meta[3] or 0) then expect('hole', 'the oldest entry follows', int(below), meta[3] or '0') end
local epoch = call('ZRANGE', P .. 'epochs', 0, 0, 'REV')[1]
expect('epoch', 'the last of the epochs', epoch or 'none', meta[2])
return { rows, #entries }
