#!lua flags=allow-oom
-- silent: an event of the trimming would be one more to trim; readers hear of it by their gap.
-- Trims the log to its bounds: count, age, bytes, whichever asks for most. Bounded: at most stepMax events a run; the
-- reply says how many went and whether there is more to do.
-- @include turn
-- @include log-index
local tail = math.max(turn.tail, turn.offset - tonumber(eventsMax))

-- Age: what stands between a row and the next was written in the second of that row.
local cutoff = turn.now - tonumber(ageMaxMs)
local rank = index.last(function(_, ms) return ms + 1000 <= cutoff end)
if rank >= 0 then tail = math.max(tail, index.row(rank + 1) or turn.offset) end

-- Bytes: within the second that crosses the bound events are taken to be of one size.
local need = turn.bytes - tonumber(bytesMax)
if need > 0 then
  rank = index.last(function(_, _, bytes) return bytes < need end)
  local offset, _, bytes = 0, 0, 0
  if rank >= 0 then offset, _, bytes = index.row(rank) end
  local above, _, most = index.row(rank + 1)
  above, most = above or turn.offset, most or turn.bytes
  local share = most > bytes and (need - bytes) / (most - bytes) or 1
  tail = math.max(tail, math.min(turn.offset, math.ceil(offset + (above - offset) * share)))
end

local target = tail
tail = math.min(tail, turn.tail + tonumber(stepMax))
local moved = tail - turn.tail
if moved > 0 then
  call('XTRIM', P .. 'log', 'MINID', int(tail + 1) .. '-0')
  turn.tail, turn.touched = tail, true
  rank = index.last(function(offset) return offset <= tail end)
  if rank > 0 then call('ZREMRANGEBYRANK', index.key, 0, rank - 1) end
  -- An epoch goes when the next one begins at or before the tail; the last 64 stay, for positions from long ago.
  local spare = call('ZCARD', P .. 'epochs') - 64
  if spare > 0 then
    local gone = call('ZCOUNT', P .. 'epochs', '-inf', int(tail + 1)) - 1
    if gone > 0 then call('ZREMRANGEBYRANK', P .. 'epochs', 0, math.min(spare, gone) - 1) end
  end
end
return turn.close({ int(moved), target > tail and 1 or 0 })
