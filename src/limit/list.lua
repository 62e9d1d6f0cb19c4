-- silent: it only reads.
-- Limits by name. Args: prefix, cursor (the last name, or ''), limit.
-- @include limit-reading
local low = cursor ~= '' and '(' .. cursor or prefix ~= '' and '[' .. prefix or '-'
local high = prefix ~= '' and '(' .. prefix .. '\255' or '+'
local rows, now = {}, nowMs()
for i, name in ipairs(call('ZRANGE', P .. 'limits', low, high, 'BYLEX', 'LIMIT', 0, tonumber(limit))) do
  rows[i] = limitRow(name, now)
end
return rows
