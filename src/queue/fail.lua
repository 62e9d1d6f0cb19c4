#!lua flags=allow-oom
-- Failures, joined from many callers. The same call under the same fence answers as the first did: a worker that lost
-- the reply must not be told STALE_FENCE for its own failure. Items: task, fence, session, binding, error, error cut for
-- history, retry (1 or 0), afterMs, jitter.
-- @include done
-- @include claim
local at, number, items, ids = batchAt + 1, tonumber(ARGV[batchAt]), {}, {}
for i = 1, number do
  items[i] = { id = ARGV[at], fence = tonumber(ARGV[at + 1]), session = ARGV[at + 2], binding = ARGV[at + 3],
    fault = ARGV[at + 4], cut = ARGV[at + 5], noRetry = ARGV[at + 6] == '0', afterMs = tonumber(ARGV[at + 7]),
    jitter = tonumber(ARGV[at + 8]), refundsMax = 0 }
  ids[i] = ARGV[at]
  at = at + 9
end
local runs, results = task.runs(ids), {}
for i, item in ipairs(items) do
  local run = runs[item.id]
  local before = run and repeated(run, item.fence, 'failed')
  if before then
    results[i] = before[9] .. (before[10] and ' ' .. int(before[10]) or '')
  else
    local held, refusal = heldBy(item, run)
    if not held then results[i] = refusal
    else
      local state, nextAt = giveBack(task.header(item.id), held, 'failed', item)
      results[i] = state .. (nextAt and ' ' .. int(nextAt) or '')
    end
  end
end
claims.read(at)
local rows = claims.serve()
task.flush()
return turn.close({ results, rows })
