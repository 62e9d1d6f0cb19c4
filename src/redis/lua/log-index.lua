-- The side index of the log: one row a second in which something happened, `<offset>:<ms>:<bytes>`. Everything up to
-- `offset` is older than `ms`, and the log had written `bytes` by then. All three rise from row to row, so rows are
-- found by halving. Needs turn.lua.
local index = { key = P .. 'logIndex' }

function index.row(rank)
  local member = call('ZRANGE', index.key, rank, rank)[1]
  if not member then return nil end
  local offset, ms, bytes = string.match(member, '^(%d+):(%d+):(%d+)$')
  return tonumber(offset), tonumber(ms), tonumber(bytes)
end

-- Rank of the last row for which `holds(offset, ms, bytes)`, or -1; it must hold for all rows before that one too.
function index.last(holds)
  local low, high = -1, call('ZCARD', index.key) - 1
  while low < high do
    local middle = floor((low + high + 1) / 2)
    if holds(index.row(middle)) then low = middle else high = middle - 1 end
  end
  return low
end
