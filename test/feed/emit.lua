-- For tests: three arguments an event (type, subject, data), one entry for all.
-- @include turn
for i = batchAt, #ARGV, 3 do emit(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
return turn.close({})
