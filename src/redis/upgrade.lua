#!lua flags=allow-oom
-- silent: the same tasks, stored in another order of values; there is nothing that anybody could be told of.
-- Runs of one set of a queue, from the order of format 1 into that of lua/places.lua. A run says by itself which it has,
-- by where the name of its queue stands: so a page that is read twice, or by two daemons, is harmless. Args: queue, set,
-- cursor, limit. Answers where to go on, '' at the end; stops early at 2 MiB, because results may be large.
-- @include reading
-- @include pages
local from = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 27, 22, 23, 24, 25, 26, 15, 10, 17, 18, 19, 20, 21, 11, 12, 13, 14, 16 }
local rows, bytes = pageOf(P .. set .. ':' .. queue, cursor, tonumber(limit)), 0
for i = 1, #rows, 2 do
  local key = P .. 'run:' .. (set == 'scheduled' and string.sub(rows[i], 17) or rows[i])
  local packed = call('GET', key)
  local old = packed and cmsgpack.unpack(packed)
  if old and type(old[22]) == 'string' and type(old[QUEUE]) ~= 'string' then
    local run = {}
    for place, at in ipairs(from) do run[place] = old[at] or false end
    call('SET', key, cmsgpack.pack(run))
  end
  bytes = bytes + (packed and #packed or 0)
  if bytes > 2097152 and i + 1 < #rows then return rows[i + 1] .. ' ' .. rows[i] end
end
return #rows == 2 * tonumber(limit) and rows[#rows] .. ' ' .. rows[#rows - 1] or ''
