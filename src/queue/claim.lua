-- What this daemon's idle workers and waiting `queue.claim` calls want, served in one step.
-- @include claim
claims.read(batchAt)
local rows = claims.serve()
task.flush()
return turn.close({ rows })
