#!lua flags=allow-oom
-- silent: renewals change nothing anybody could be told of; a holder whose session has run out loses its task here.
-- Own leases of tasks, by their holder; one without lives with its session and renews that. Args: caller, binding; then
-- at most 200 rows of task, fence, leaseMs ('' for its own). Answers for each '!CODE …' or when it ends (milliseconds).
-- @include done
local ids, results = {}, {}
for i = batchAt, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local runs, spoke = task.runs(ids), false
for i, id in ipairs(ids) do
  local at = batchAt + 3 * (i - 1)
  local leaseMs = tonumber(ARGV[at + 2])
  local held, refusal = heldBy({ id = id, fence = tonumber(ARGV[at + 1]), session = caller, binding = binding }, runs[id])
  if held and leaseMs and not held[LEASE] then
    refusal = '!INVALID {"message":"the task has no lease of its own; renewing it renews its session and carries no leaseMs"}'
  elseif held and held[LEASE] then
    local ends = turn.lease + (leaseMs or held[LEASE])
    arm(held, id, 'l', ends)
    results[i] = int(ends + turn.skew)
  elseif held then results[i] = int(turn.now + session(caller).ttl) end
  results[i] = results[i] or refusal
  spoke = spoke or held ~= nil
end
if spoke then renew(session(caller), 0) end
task.flush()
return turn.close(results)
