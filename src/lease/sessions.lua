-- A page of live sessions by SCAN, which sees every one that lives throughout. Args: cursor.
-- @include reading
local found = call('ZSCAN', P .. 'sessions', cursor, 'COUNT', 100)
local ids = {}
for i = 1, #found[2], 2 do ids[#ids + 1] = found[2][i] end
return { found[1], ids }
