-- Admission: whether a queue takes one more task, decided where the task is stored, so that a bound holds whatever number
-- of daemons and producers there is.
--
-- The story this prevents: producers five times as fast as the workers fill the memory, and the first to notice is Redis.
-- So a queue with `admission` has levels: 1 from `low` advises a delay, 2 from `high` (or what gauges found) sheds low
-- priorities, 3 from `critical` takes nothing. Scripts that put tasks only raise a level; it falls in backpressure/gauge,
-- where the whole picture is looked at, or it would flap with every task that comes and goes at a threshold.
--
-- A queue without admission costs a field of a hash that is read anyway; one with it, three commands a script.
-- @include finish
local admission = {}
do
  local rules = {}

  function admission.depth(queue) return call('ZCARD', P .. 'waiting:' .. queue) + call('ZCARD', P .. 'blocked:' .. queue) end

  function admission.of(known)
    local rule = rules[known.name]
    if rule then return rule end
    local low, high, critical, per, most, below = string.match(known.admission,
      '^(%d+),(%d+),(%d+),[^,]*,(%d+),(%d+),(%d+)')
    rule = { known = known, low = tonumber(low), high = tonumber(high), critical = tonumber(critical), per = tonumber(per),
      most = tonumber(most), below = tonumber(below), shed = 0, rejected = 0, depth = admission.depth(known.name),
      level = tonumber(call('HGET', P .. 'level:' .. known.name, 'level') or 0) }
    rules[known.name] = rule
    return rule
  end

  function admission.levelAt(rule, depth)
    return depth >= rule.critical and 3 or depth >= rule.high and 2 or depth >= rule.low and 1 or 0
  end

  -- Milliseconds that a producer should wait before its next task: so much for each task in excess.
  function admission.delay(rule, level, depth)
    if level == 0 then return nil end
    return math.min(rule.most, math.max(rule.per, (depth - rule.low) * rule.per))
  end

  -- nil if the queue takes a task of this priority now, else why not.
  function admission.check(known, priority)
    local rule = admission.of(known)
    local level = math.max(rule.level, admission.levelAt(rule, rule.depth))
    if level < 2 or (level == 2 and priority >= rule.below) then return nil end
    local why = level == 3 and '"the queue takes nothing until it is shorter"' or '"the queue sheds what is below a priority"'
    local field = level == 3 and 'rejected' or 'shed'
    rule[field] = rule[field] + 1
    return fmt('!OVERLOADED {"message":%s,"scope":"queue","level":%d,"depth":%d,%s"afterMs":%d}', why, level, rule.depth,
      level == 2 and fmt('"priority":%d,"shedBelow":%d,', priority, rule.below) or '',
      math.max(100, admission.delay(rule, level, rule.depth)))
  end

  -- A task was accepted that will stand in the queue at once.
  function admission.took(known)
    local rule = admission.of(known)
    rule.depth = rule.depth + 1
  end

  -- Counts what was turned away, and tells a change of level.
  function admission.settle(rule, level, depth, why)
    local key, queue = P .. 'level:' .. rule.known.name, rule.known.json
    for _, field in ipairs({ 'shed', 'rejected' }) do
      if rule[field] > 0 then call('HINCRBY', key, field, rule[field]) end
      rule[field] = 0
    end
    if level == rule.level then return end
    call('HSET', key, 'level', level, 'why', why, 'at', turn.nowText)
    local delay = admission.delay(rule, level, depth)
    emit('pressure.changed', queue, fmt('{"queue":%s,"level":%d,"was":%d,"why":"%s","depth":%d%s}', queue, level, rule.level,
      why, depth, delay and fmt(',"delayMs":%d', delay) or ''))
    rule.level = level
  end

  -- At the end of a script that put tasks, and perhaps gave some out: rows { queue, level, delay, 1 } of the queues it met.
  function admission.close()
    local rows = {}
    for queue, rule in pairs(rules) do
      local depth = admission.depth(queue)
      local level = math.max(rule.level, admission.levelAt(rule, depth))
      admission.settle(rule, level, depth, 'depth')
      rows[#rows + 1] = { queue, level, admission.delay(rule, level, depth) or '', 1 }
    end
    return rows
  end
end
