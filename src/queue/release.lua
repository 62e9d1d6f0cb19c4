#!lua flags=allow-oom
-- Tasks handed back: by their worker (released), or by the daemon that holds the socket, for a push that was not
-- received (undelivered) or while it stops (drained). The attempt is refunded, up to refundsMax times a task: beyond,
-- handing back counts like failing, or a worker that hands back for ever would keep a task alive for ever. Items: task,
-- fence, session, binding, reason, afterMs, saved.
-- @include done
-- @include claim
local at, number, items, ids = batchAt + 1, tonumber(ARGV[batchAt]), {}, {}
for i = 1, number do
  items[i] = { id = ARGV[at], fence = tonumber(ARGV[at + 1]), session = ARGV[at + 2], binding = ARGV[at + 3],
    reason = ARGV[at + 4], afterMs = tonumber(ARGV[at + 5]), saved = ARGV[at + 6] ~= '' and ARGV[at + 6] or nil,
    refundsMax = tonumber(refundsMax) }
  ids[i] = ARGV[at]
  at = at + 7
end
local runs, results = task.runs(ids), {}
for i, item in ipairs(items) do
  local run = runs[item.id]
  local before = run and (repeated(run, item.fence, 'released') or repeated(run, item.fence, 'undelivered') or
    repeated(run, item.fence, 'drained'))
  if before then results[i] = before[9]
  else
    local held, refusal = heldBy(item, run)
    results[i] = not held and refusal or giveBack(task.header(item.id), held, item.reason, item)
  end
end
claims.read(at)
local rows = claims.serve()
task.flush()
return turn.close({ results, rows })
