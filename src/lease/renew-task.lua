#!lua flags=allow-oom
-- A task's own lease, by its holder. One without an own lease lives with its session: renewing it renews that. Args: id,
-- fence, caller, binding, leaseMs ('' for its own).
-- @include done
local item = { id = id, fence = tonumber(fence), session = caller, binding = binding }
local held, refusal = heldBy(item, task.runs({ id })[id])
local ends
if held and held[LEASE] then
  ends = turn.lease + (leaseMs ~= '' and tonumber(leaseMs) or held[LEASE])
  arm(held, id, 'l', ends)
elseif held and leaseMs ~= '' then
  refusal = '!INVALID {"message":"the task has no lease of its own; renewing it renews its session and carries no leaseMs"}'
elseif held then
  ends = turn.lease + tonumber(call('HGET', P .. 'session:' .. caller, 'ttlMs'))
end
if held then call('ZADD', P .. 'sessions', 'XX', 'GT', int(turn.lease + tonumber(call('HGET', P .. 'session:' .. caller, 'ttlMs'))), caller) end
task.flush()
turn.touched = true
return turn.close({ refusal or 'ok', ends and int(ends + turn.skew) or '' })
