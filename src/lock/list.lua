-- silent: it only reads.
-- Locks that are defined, held or waited for, by name, each with a few holders and waiters. Args: prefix, cursor (the last
-- name, or ''), limit, most.
-- @include lock-reading
local low = cursor ~= '' and '(' .. cursor or prefix ~= '' and '[' .. prefix or '-'
local high = prefix ~= '' and '(' .. prefix .. '\255' or '+'
local rows = {}
for i, name in ipairs(call('ZRANGE', P .. 'locks', low, high, 'BYLEX', 'LIMIT', 0, tonumber(limit))) do
  rows[i] = lockRow(name, tonumber(most), false)
end
return rows
