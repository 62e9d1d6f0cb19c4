-- A limit as it is shown: {name, definition, waiting, blockedUntil, rows by dimension}, or nil.
-- @include reading
-- @include limit-dims
local function limitRow(name, now)
  local row = call('HMGET', P .. 'limit:' .. name, 'def', 'now')
  if not row[1] then return nil end
  local item, rows = dims.open(name, row[1], row[2], now), {}
  for i, dim in ipairs(item.list) do rows[i] = dims.row(dim) end
  local blocked = item.phase == 'blocked' and item.blockedUntil > now and string.format('%.0f', item.blockedUntil) or ''
  return { name, item.def.text, string.format('%.0f', item.waiting), blocked, rows }
end
