-- The ends of a task, and its way back. Every road out of `active` passes here, so that no set, counter, key, timer or
-- holding can be forgotten on one of them.
-- @include task
local function freeKey(head)
  if head.key ~= '' and call('HGET', P .. 'keys:' .. head.queue, head.key) == head.id then
    call('HDEL', P .. 'keys:' .. head.queue, head.key)
  end
end

-- One row of history, the last 20 kept: attempt, fence, session, agent, started, ended, outcome, error, state, nextAt.
local function remember(run, outcome, fault, state, nextAt)
  local history = run[HISTORY] or {}
  history[#history + 1] = { run[ATTEMPT], run[FENCE], run[SESSION], run[AGENT], run[STARTED], turn.now, outcome,
    fault or false, state, nextAt or false }
  if #history > 20 then table.remove(history, 1) end
  run[HISTORY] = history
end

-- Ends a task in `state`. The caller has taken it out of the ready or scheduled set; an active one leaves here.
local function finish(head, run, state, reason, more)
  local wasActive = run[STATE] == 'active'
  if wasActive then active(head, run, -1) end
  disarm(run, head.id, 'sdltg')
  unfinished(head, -1)
  run[STATE], run[ENDED] = state, turn.now
  if run[ENDING] then run[ENDING] = false end
  if state == 'completed' then
    local window = head.key ~= '' and queueOf(head.queue).keyWindow or 0
    if window > 0 then add(P .. 'windowed:' .. head.queue, int(turn.now + window), head.id)
    else
      if head.key ~= '' then freeKey(head) end
      add(queueOf(head.queue).completed, turn.nowText, head.id)
    end
    rate(head.queue, 'c')
  else
    freeKey(head)
    add(P .. state .. ':' .. head.queue, turn.nowText, head.id)
    if state == 'dead' then rate(head.queue, 'f') end
  end
  save(head.id, run)
  tell('task.' .. state, head, more, reason and ',"reason":"' .. reason .. '"')
end

local function holderOf(run)
  return run[SESSION] and ',"session":' .. name(run[SESSION]) .. ',"agent":' .. name(run[AGENT]) or ''
end

-- Backoff: full jitter between 0 and the exponential cap, never earlier than a stated retry-after.
local function backoffMs(head, run, afterMs, jitter)
  local spec = head.backoff ~= '' and head.backoff or queueOf(head.queue).backoff
  local base, cap = string.match(spec, '^%a+,(%d+),(%d+)')
  local ceiling = math.min(tonumber(cap), tonumber(base) * 2 ^ math.min(run[ATTEMPT] - 1, 40))
  return math.max(floor(ceiling * jitter), afterMs or 0)
end

local REFUNDED = { released = true, undelivered = true, drained = true }
local BACKED = { failed = true, timedOut = true }
local LOST = { sessionLost = true, leaseLapsed = true, revoked = true }

-- An active task goes back. `head` must come from task.header; `reason` is one of the words above. `options`: fault
-- (JSON), afterMs, jitter (0 to 1), saved (JSON), noRetry, refundsMax. Answers the state and when it is due again.
local function giveBack(head, run, reason, options)
  local refund = REFUNDED[reason] and run[REFUNDS] < options.refundsMax
  local ending, nextAt = run[ENDING], nil
  local spent = run[ATTEMPT] >= (head.attempts or queueOf(head.queue).attempts)
  local state
  if ending then state = ending == 'deadline' and 'expired' or 'cancelled'
  elseif not refund and (spent or options.noRetry) then state = 'dead'
  else
    local waitMs = BACKED[reason] and backoffMs(head, run, options.afterMs, options.jitter) or options.afterMs or 0
    if waitMs > 0 then nextAt = turn.now + waitMs end
    state = nextAt and 'scheduled' or 'ready'
  end
  local fault = options.fault or LOST[reason] and '{"message":"the worker was lost","code":"WORKER_LOST"}' or
    reason == 'timedOut' and '{"message":"the attempt ran out of time","code":"TIMEOUT"}' or nil
  if options.saved then run[SAVED] = options.saved end
  if fault then run[FAULT] = fault end
  remember(run, reason, options.cut or fault, state, nextAt)
  local more = holderOf(run) .. ',"attempt":' .. run[ATTEMPT] .. ',"fence":' .. int(run[FENCE])
  if fault and #fault <= 2048 then more = more .. ',"error":' .. oneRow(fault) end
  -- Fenced out: whoever held it answers STALE_FENCE from now on, given on already or not.
  local fence = nextFence()
  if state ~= 'ready' and state ~= 'scheduled' then
    finish(head, run, state, ending and (ending == 'deadline' and 'deadline' or 'cancelled') or reason, more)
    run[FENCE] = fence
    save(head.id, run)
    return state
  end
  active(head, run, -1)
  disarm(run, head.id, 'ltg')
  if refund then run[ATTEMPT], run[REFUNDS] = run[ATTEMPT] - 1, run[REFUNDS] + 1 end
  run[FENCE], run[STATE], run[PROGRESS] = fence, state, false
  run[SESSION], run[WORKER], run[AGENT], run[STARTED] = false, false, false, false
  if state == 'scheduled' then toScheduled(head, run, nextAt) else toReady(head, run[SCORE]) end
  if BACKED[reason] then rate(head.queue, 'f') end
  save(head.id, run)
  more = more .. ',"state":"' .. state .. '"' .. (nextAt and ',"nextAt":"' .. iso(nextAt) .. '"' or '')
  tell(REFUNDED[reason] and 'task.released' or 'task.retried', head, more .. ',"reason":"' .. reason .. '"' ..
    (REFUNDED[reason] and not refund and ',"charged":true' or ''))
  return state, nextAt
end
