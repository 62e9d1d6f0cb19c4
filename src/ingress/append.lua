-- Appends what was heard on the channel, if this daemon still is the appender, and remembers how far that was: both in
-- one step, so that whoever takes over goes on exactly behind it. Eight arguments an item: p(ublished) and the seven of
-- published.lua, r(ejected) with its channel and data, h(ole) with when it began, how long ago it ended, and
-- its count. Answers the time, or 0 if it is not the appender.
-- @include turn
-- @include published
local key = P .. 'ingress'
local lease = call('HMGET', key, 'daemon', 'fence', 'heardAt')
if lease[1] ~= daemon or lease[2] ~= fence then return turn.close(0) end

local function gap(since, till, lost)
  emit('ingress.gap', '"pubsub"', '{"via":"pubsub","since":"' .. iso(since) .. '","until":"' .. iso(math.max(since, till)) ..
    '"' .. (lost and ',"lost":' .. lost or '') .. '}')
end

if gapUntilAgoMs ~= '' then gap(tonumber(lease[3] or turn.now), turn.now - tonumber(gapUntilAgoMs)) end
for i = batchAt, #ARGV, 8 do
  local kind = ARGV[i]
  if kind == 'p' then published.append(unpack(ARGV, i + 1, i + 7))
  elseif kind == 'r' then emit('ingress.rejected', ARGV[i + 1], ARGV[i + 2])
  else gap(math.min(tonumber(ARGV[i + 1]), turn.now), turn.now - tonumber(ARGV[i + 2]), ARGV[i + 3]) end
end
published.bound()
call('HSET', key, 'mark', mark, 'count', count, 'heardAt', int(math.min(tonumber(doneAt), turn.now)))
return turn.close(int(turn.now))
