-- Pages through a sorted set that changes meanwhile. The cursor is the last row seen, `<score> <member>`; if it is gone
-- the page goes on at its score, so that nothing is skipped, and rows of that very score may come again.
local function pageOf(key, cursor, limit)
  local start = 0
  if cursor ~= '' then
    local score, member = string.match(cursor, '^(%S+) (.*)$')
    if not score or not string.match(score, '^%-?%d+%.?%d*$') then return nil end
    local rank = redis.call('ZRANK', key, member)
    start = rank and rank + 1 or redis.call('ZCOUNT', key, '-inf', '(' .. score)
  end
  return redis.call('ZRANGE', key, start, start + limit - 1, 'WITHSCORES')
end
