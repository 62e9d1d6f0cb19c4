#!lua flags=allow-oom
-- The clocks of single tasks: startBy and deadline by Redis' time; own lease, timeout of an attempt and the grace of a
-- cancel by the lease clock. At most 100 of each a call. Args: cancelGraceMs, jitter. Answers milliseconds to the next
-- one, or ''.
-- @include finish
math.randomseed(tonumber(jitter) * 1000000)

local function onDeadline(head, run, letter)
  local state = run and run[STATE] or 'ready'
  if state == 'active' then
    if letter == 's' or run[ENDING] then return end
    run[ENDING] = 'deadline'
    run[TIMERS] = string.gsub(run[TIMERS], 'd', '')
    arm(run, head.id, 'g', turn.lease + tonumber(cancelGraceMs))
    save(head.id, run)
    tell('task.cancelRequested', head, holderOf(run) .. ',"fence":' .. int(run[FENCE]) .. ',"graceMs":' .. cancelGraceMs ..
      ',"reason":"deadline"')
  elseif state == 'ready' or state == 'scheduled' or state == 'blocked' then
    if letter == 's' and run and run[ATTEMPT] + run[REFUNDS] > 0 then return end
    if state == 'ready' then fromReady(head) else fromScheduled(head, run) end
    finish(head, run or newRun(head, 'ready', 0), 'expired', 'deadline')
  end
end

for _, member in ipairs(call('ZRANGEBYSCORE', P .. 'timers', '-inf', int(turn.now), 'LIMIT', 0, 100)) do
  local letter, id = string.sub(member, 1, 1), string.sub(member, 2)
  remove(P .. 'timers', member)
  local head = task.header(id)
  if head then
    local at = letter == 's' and head.startBy or letter == 'd' and head.deadline
    if at and at <= turn.now then onDeadline(head, task.runs({ id })[id] or nil, letter) end
  end
  task.flush()
end

local WHY = { l = 'leaseLapsed', t = 'timedOut', g = 'cancelled' }
for _, member in ipairs(call('ZRANGEBYSCORE', P .. 'leases', '-inf', int(turn.lease), 'LIMIT', 0, 100)) do
  local letter, id = string.sub(member, 1, 1), string.sub(member, 2)
  remove(P .. 'leases', member)
  local head, run = task.header(id), task.runs({ id })[id]
  if head and run and run[STATE] == 'active' and (letter ~= 'g' or run[ENDING]) then
    giveBack(head, run, letter == 'g' and run[ENDING] == 'deadline' and 'deadline' or WHY[letter], { refundsMax = 0, jitter = math.random() })
  end
  task.flush()
end

local timers = tonumber(call('ZRANGE', P .. 'timers', 0, 0, 'WITHSCORES')[2] or 1e15) - turn.now
local leases = tonumber(call('ZRANGE', P .. 'leases', 0, 0, 'WITHSCORES')[2] or 1e15) - turn.lease
local soonest = math.min(timers, leases)
return turn.close({ soonest < 1e14 and int(math.max(0, soonest)) or '' })
