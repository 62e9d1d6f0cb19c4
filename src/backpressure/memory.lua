-- silent: it only reads.
-- How full Redis is, and how many bytes of events the log of this namespace holds. Answers { used, max (0: no limit), log }.
-- @include reading
local info = call('INFO', 'memory')
local meta = call('HMGET', KEYS[1], 'bytes', 'offset', 'tail')
local bytes, last, tail = tonumber(meta[1] or 0), tonumber(meta[2] or 0), tonumber(meta[3] or 0)

-- What was written below the tail. Within a second events are taken to be of one size, as the trimming takes them
-- (sweeps/trim-log.lua): counted from the beginning of its second, a log would never get shorter in a busy one.
local function before()
  local rows = call('ZRANGE', P .. 'logIndex', 0, 1)
  if not rows[1] then return bytes end
  local function read(member)
    local offset, sum = string.match(member, '^(%d+):%d+:(%d+)$')
    return tonumber(offset), tonumber(sum)
  end
  local from, low = read(rows[1])
  local to, high = last, bytes
  if rows[2] then to, high = read(rows[2]) end
  if tail <= from or to <= from then return low end
  return low + (high - low) * math.min(1, (tail - from) / (to - from))
end

return { string.match(info, 'used_memory:(%d+)'), string.match(info, 'maxmemory:(%d+)'),
  string.format('%.0f', math.max(0, bytes - before())) }
