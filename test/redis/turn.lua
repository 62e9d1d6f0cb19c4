-- For tests: shows the turn. `mode` refuse leaves without closing, fences asks for so many.
-- @include turn
if mode == 'refuse' then return refuse('CONFLICT') end
local fences = {}
for i = 1, tonumber(count) do fences[i] = int(nextFence()) end
if mode == 'emit' then emit('test.made', '"x"', '{}') end
return turn.close({ turn.epoch, int(turn.lease), int(turn.now), int(turn.skew), fences })
