-- Appends what agents publish, in one step with the memory of what was published before. The batch is joined from many
-- callers: seven arguments an event, at most 200 events and some hundred KiB.
-- @include turn
-- @include published
local results = {}
for i = batchAt, #ARGV, 7 do results[#results + 1] = published.append(unpack(ARGV, i, i + 6)) end
published.bound()
return turn.close(results)
