-- Completions, in two passes like everything that may be refused.
--
-- The story this prevents: A claims under fence 7 and freezes; its session ends, B claims under fence 8 and completes;
-- A thaws and completes under 7. The fence says who came later, so A is refused and B's result stays.
-- @include finish
local done = { items = {}, runs = {} }

-- Items stand in ARGV from `at`: their number, then task, fence, session, binding, result ('' for none).
function done.read(at)
  local number, ids = tonumber(ARGV[at]), {}
  at = at + 1
  for i = 1, number do
    done.items[i] = { id = ARGV[at], fence = tonumber(ARGV[at + 1]), session = ARGV[at + 2], binding = ARGV[at + 3],
      result = ARGV[at + 4] }
    ids[i] = ARGV[at]
    at = at + 5
  end
  done.runs = task.runs(ids)
  return at
end

-- The attempt goes on, but not for this socket: these words say so to the daemon too (stays held, queue/joins.ts).
local ELSEWHERE = '"message":"the session speaks on a newer socket",'

local function staleFence(item, run, more)
  return '!STALE_FENCE {' .. (more or '') .. '"yours":' .. int(item.fence) .. ',"current":' .. int(run and run[FENCE] or 0) .. '}'
end

-- A fence that ended with `outcome` before: the caller repeats itself, and hears what it heard then.
local function repeated(run, fence, outcome)
  for _, row in ipairs(run[HISTORY] or {}) do
    if row[2] == fence and row[7] == outcome then return row end
  end
end

-- The run if the item's caller holds the task now; else nil and the refusal. A holder whose session has run out although
-- no sweep has seen it yet loses the task here and now, so that `current` is never its own fence.
local function heldBy(item, run)
  if not run then
    if call('EXISTS', P .. 'task:' .. item.id) == 0 then return nil, '!NOT_FOUND' end
    return nil, staleFence(item, nil)
  end
  if run[STATE] ~= 'active' or run[FENCE] ~= item.fence or run[SESSION] ~= item.session then
    return nil, staleFence(item, run)
  end
  if not session(item.session).alive then
    giveBack(task.header(item.id), run, 'sessionLost', { refundsMax = 0 })
    return nil, staleFence(item, run)
  end
  if session(item.session).binding ~= item.binding then return nil, staleFence(item, run, ELSEWHERE) end
  return run
end

-- First pass of one item: nil if it may be completed, else its result.
function done.check(item)
  local run = done.runs[item.id]
  if run and run[STATE] == 'completed' and run[FENCE] == item.fence then return 'completed' end
  local held, refusal = heldBy(item, run)
  return not held and refusal or nil
end

function done.write(item)
  local run = done.runs[item.id]
  if item.result ~= '' then run[RESULT] = item.result end
  local head = task.ofRun(item.id, run)
  if run[PROGRESS] then run[PROGRESS] = false end
  finish(head, run, 'completed', 'completed', holderOf(run) .. ',"attempt":' .. digits[run[ATTEMPT]] .. ',"fence":' .. int(run[FENCE]))
  return 'completed'
end
