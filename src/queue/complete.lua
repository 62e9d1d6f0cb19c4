#!lua flags=allow-oom
-- Joined from many callers, and followed by what this daemon's workers want next: complete-and-claim is one step.
-- Allowed when memory is short: finished work is how a full queue gets empty.
-- @include done
-- @include claim
local at = done.read(batchAt)
local results = {}
for i, item in ipairs(done.items) do
  results[i] = done.check(item) or done.write(item)
end
claims.read(at)
local rows = claims.serve()
task.flush()
return turn.close({ results, rows })
