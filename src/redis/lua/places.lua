-- Where in a run its values stand (redis/script.ts folds the names into numbers). What every active task has comes first:
-- a run is stored without the nothing at its end, and most tasks never have more. queue/record.ts reads the same places.
local STATE, FENCE, SESSION, WORKER, AGENT, ATTEMPT, REFUNDS, SCORE = 1, 2, 3, 4, 5, 6, 7, 8
local STARTED, ENQUEUED, QUEUE, TENANT, KIND, KEY, PRIORITY, TIMERS = 9, 10, 11, 12, 13, 14, 15, 16
local ENDED, RESULT, FAULT, PROGRESS, SAVED, HISTORY, DUE, DUENO = 17, 18, 19, 20, 21, 22, 23, 24
local LEASE, TIMEOUT, ENDING = 25, 26, 27
