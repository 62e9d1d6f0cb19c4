-- What a session holds, as rows {kind, name, fence, queue, sinceAt, endsAt}. Written for writing scripts and for reading
-- ones: it needs P and call only, and is told the skew between the lease clock and TIME.
-- @include pages
-- @include places
local function holdingsOf(id, cursor, limit, skew)
  local rows = pageOf(P .. 'held:' .. id, cursor, limit)
  if not rows then return nil end
  local names = {}
  for i = 1, #rows, 2 do
    if string.sub(rows[i], 1, 1) == 't' then names[#names + 1] = P .. 'run:' .. string.sub(rows[i], 2) end
  end
  local packed, at, out = #names > 0 and call('MGET', unpack(names)) or {}, 0, {}
  for i = 1, #rows, 2 do
    local letter, name = string.sub(rows[i], 1, 1), string.sub(rows[i], 2)
    if letter == 't' then
      at = at + 1
      local run = packed[at] and cmsgpack.unpack(packed[at])
      if run and run[STATE] == 'active' and run[SESSION] == id then
        local lease = run[LEASE] and call('ZSCORE', P .. 'leases', 'l' .. name)
        out[#out + 1] = { 'task', name, string.format('%.0f', run[FENCE]), run[QUEUE] or '', rows[i + 1],
          lease and string.format('%.0f', tonumber(lease) + skew) or '' }
      end
    end
  end
  return out, #rows == 2 * limit and rows[#rows] .. ' ' .. rows[#rows - 1] or ''
end
