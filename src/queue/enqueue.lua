-- Joined from many callers: up to 200 items of any queues, then what the idle workers of this daemon want, so that a
-- task which finds one is stored, claimed and on its way in one step.
-- @include put
-- @include claim
local at = puts.read(batchAt)
puts.check(tonumber(kindsMax))
claims.read(at)
local results = puts.write(claims.direct)
local rows = claims.serve()
task.flush()
return turn.close({ results, rows, puts.pressure() })
