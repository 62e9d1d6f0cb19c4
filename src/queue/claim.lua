-- What this daemon's idle workers and waiting `queue.claim` calls want, served in one step.
-- @include claim
local rows = claims.serve(batchAt)
task.flush()
return turn.close({ rows })
