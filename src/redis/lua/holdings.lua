-- What a session holds, as rows {kind, name, fence, queue, sinceAt, endsAt}. Written for writing scripts and for reading
-- ones: it needs P, call, pageOf and a clock only.
-- @include pages
local function holdingsOf(id, cursor, limit)
  local skew = tonumber(call('HGET', KEYS[1], 'skew') or 0)
  local rows = pageOf(P .. 'held:' .. id, cursor, limit)
  if not rows then return nil end
  local out = {}
  for i = 1, #rows, 2 do
    local letter, name = string.sub(rows[i], 1, 1), string.sub(rows[i], 2)
    if letter == 't' then
      local packed = call('GET', P .. 'run:' .. name)
      local run = packed and cmsgpack.unpack(packed)
      if run and run[1] == 'active' and run[3] == id then
        local lease = tonumber(call('ZSCORE', P .. 'leases', 'l' .. name) or false)
        out[#out + 1] = { 'task', name, string.format('%.0f', run[2]), run[22] or '', rows[i + 1],
          lease and string.format('%.0f', lease + skew) or '' }
      end
    end
  end
  return out, #rows == 2 * limit and rows[#rows] .. ' ' .. rows[#rows - 1] or ''
end
