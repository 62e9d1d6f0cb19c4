#!lua flags=allow-oom
-- What a provider's headers say. Answers to calls come in any order and are late: an older, larger number must not undo a
-- smaller one, so until the reset the smallest counts, and what is granted meanwhile is taken off it. Args: caller, binding,
-- name, dimension, remaining, resetMs. Told by the gauge.
-- @include limit-wait
if not speaks(caller, binding) then return refuse('SESSION_LOST') end
local item = limit.get(name)
if not item then return refuse('NOT_FOUND', '{"message":"no such limit; limit.define makes one"}') end
local dim = item.dims[dimension]
if not dim or dim.mode == 'held' then
  return refuse('INVALID', '{"message":"' .. (dim and 'concurrency is counted here and nowhere else' or
    'the limit has no such dimension') .. '","dimension":' .. json(dimension) .. '}')
end
local resetsAt = turn.now + tonumber(resetMs)
dim.cap = dim.cap and math.min(dim.cap, tonumber(remaining)) or tonumber(remaining)
dim.capUntil, dim.capSince = math.max(dim.capUntil or 0, resetsAt), dim.capSince or turn.now
item.changed, item.look = true, true
local left = int(dims.left(dim))
return turn.close({ left, limit.flush() })
