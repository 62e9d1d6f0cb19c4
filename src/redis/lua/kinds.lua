-- A queue has at most so many kinds in use: a claim looks into one lane a kind, and what stood beyond would be seen by
-- nobody. So every road on which a task comes (back) into a lane asks here first.
-- @include task
local kindsSeen = {}
-- The refusal, or nil; the kind counts as in use then, for what the script looks at next.
local function kindRefused(queue, kind, kindsMax)
  -- No kind is a lane of its own and does not count.
  if kind == '' then return nil end
  local seen = kindsSeen[queue]
  if not seen then
    seen = { count = call('ZCARD', P .. 'lanes:' .. queue) - (call('ZSCORE', P .. 'lanes:' .. queue, '') and 1 or 0) }
    kindsSeen[queue] = seen
  end
  if seen[kind] == nil then
    seen[kind] = call('ZSCORE', P .. 'lanes:' .. queue, kind) and true or false
    if not seen[kind] then
      if seen.count >= kindsMax then
        seen[kind] = nil
        return fmt('!LIMIT {"message":"the queue has %d kinds in use","max":%d}', seen.count, kindsMax)
      end
      seen.count, seen[kind] = seen.count + 1, true
    end
  end
  return nil
end
