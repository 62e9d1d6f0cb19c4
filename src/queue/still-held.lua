-- Which of these attempts a session has still. Args: session, then pairs of task and fence.
-- @include reading
local out = {}
for i = batchAt, #ARGV, 2 do
  local packed = call('GET', P .. 'run:' .. ARGV[i])
  local run = packed and cmsgpack.unpack(packed)
  local held = run and run[STATE] == 'active' and run[SESSION] == session and run[FENCE] == tonumber(ARGV[i + 1])
  out[#out + 1] = held and 1 or 0
end
return out
