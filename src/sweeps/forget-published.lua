#!lua flags=allow-oom
-- silent: it ends the memory of repeats, which is announced as a setting.
-- Forgets published events whose window is over, at most pageMax of them; answers how many.
-- @include turn
local at = P .. 'publishedAt'
local page = tonumber(pageMax)
local old = call('ZRANGE', at, '-inf', int(turn.now - tonumber(windowMs)), 'BYSCORE', 'LIMIT', 0, page)
if #old > 0 then
  call('HDEL', P .. 'published', unpack(old))
  call('ZREM', at, unpack(old))
end
return turn.close(#old)
