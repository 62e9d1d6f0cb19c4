-- silent: it looks; only a new epoch has an event, and its turn writes that.
-- The log as it is at this moment, and where an instant lies in it. A turn and not a read: a log that nobody has
-- written to has no epoch yet, and one that came back from a restart is to have its new one before a position is given.
-- @include turn
-- @include log-index
local reply = {}
local result = turn.close(reply)

-- The place before the first event at or after `ms`: the index leads to a second, halving the entries of it to the
-- event. Both take some twenty steps in a full log.
local function placeOf(ms)
  local rank = index.last(function(_, began) return began <= ms end)
  local low = math.max(turn.tail, rank >= 0 and index.row(rank) or 0)
  local high = math.max(low, index.row(rank + 1) or turn.offset)
  while low < high do
    local middle = floor((low + high) / 2)
    local entry = call('XRANGE', P .. 'log', int(middle + 1) .. '-0', '+', 'COUNT', 1)[1]
    if not entry then return high end
    local last, fields = tonumber(string.match(entry[1], '^%d+')), entry[2]
    if tonumber(fields[6]) >= ms then high = math.min(middle, math.max(low, last - tonumber(fields[8])))
    else low = math.min(high, last) end
  end
  return low
end

reply[1], reply[2], reply[3] = turn.epoch, int(turn.offset), int(turn.tail)
reply[4] = call('ZRANGE', P .. 'epochs', 0, -1, 'WITHSCORES')
reply[5] = atMs ~= '' and int(placeOf(tonumber(atMs))) or ''
return result
