-- Tasks that a worker of a session holds in a queue, a page at a time. Args: session, worker, queue, cursor, limit.
-- @include reading
-- @include pages
local rows, out = pageOf(P .. 'held:' .. session, cursor, tonumber(limit)) or {}, {}
for i = 1, #rows, 2 do
  if string.sub(rows[i], 1, 1) == 't' then
    local id = string.sub(rows[i], 2)
    local packed = call('GET', P .. 'run:' .. id)
    local run = packed and cmsgpack.unpack(packed)
    if run and run[STATE] == 'active' and run[SESSION] == session and run[WORKER] == worker and run[QUEUE] == queue then
      out[#out + 1] = { id, string.format('%.0f', run[FENCE]) }
    end
  end
end
return { out, #rows == 2 * tonumber(limit) and rows[#rows] .. ' ' .. rows[#rows - 1] or '' }
