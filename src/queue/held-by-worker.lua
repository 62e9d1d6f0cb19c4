-- Tasks that a worker of a session holds in a queue, after a resume. Args: session, worker, queue.
-- @include reading
local out = {}
for _, member in ipairs(call('ZRANGE', P .. 'held:' .. session, 0, 999)) do
  if string.sub(member, 1, 1) == 't' then
    local id = string.sub(member, 2)
    local packed = call('GET', P .. 'run:' .. id)
    local run = packed and cmsgpack.unpack(packed)
    if run and run[1] == 'active' and run[3] == session and run[4] == worker and run[22] == queue then
      out[#out + 1] = { id, string.format('%.0f', run[2]) }
    end
  end
end
return out
