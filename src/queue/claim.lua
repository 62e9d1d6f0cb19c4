#!lua flags=allow-oom
-- What this daemon's idle workers and waiting `queue.claim` calls want, served in one step. Allowed
-- when memory is short: only work that is given out gets finished.
-- @include claim
claims.read(batchAt)
local rows = claims.serve()
task.flush()
return turn.close({ rows })
