#!lua flags=allow-oom
-- The whole picture of queues with admission, once a sweep: what this daemon knows of them (credit of its workers, the
-- level it derives from gauges, and which level it saw when it did) goes in, the level follows, the gauges come out.
-- A level falls only here, and only if the daemon that lets it fall has seen it: one that was raised meanwhile stays.
-- Args: rows of queue, credit, floor, why, seen; at most 50. Answers { now, rows of { queue, level, depth, oldest in ms,
-- completed in 1/1000 a second, active, credit, admission } }.
-- @include admission
local rows, freshMs = {}, 10000

-- What daemons said of a queue in the last seconds: the credit of all their workers, and the highest level of theirs.
local function said(key)
  local credit, highest, why, fields = 0, 0, 'depth', call('HGETALL', key)
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 'd:' then
      local has, level, word, at = string.match(fields[i + 1], '^(%d+) (%d) (%a*) (%-?%d+)$')
      if math.abs(turn.lease - tonumber(at)) > freshMs then call('HDEL', key, fields[i])
      else
        credit = credit + tonumber(has)
        if tonumber(level) > highest then highest, why = tonumber(level), word end
      end
    end
  end
  return credit, highest, why
end

local function oldestMs(queue)
  local id = call('ZRANGE', P .. 'waiting:' .. queue, 0, 0)[1]
  local head = id and task.header(id)
  if not head then return 0 end
  local run = task.runs({ id })[id]
  -- Ready since it was enqueued, due, or given back.
  local back = run and run[HISTORY] and run[HISTORY][#run[HISTORY]][6]
  return math.max(0, turn.now - math.max(head.at, run and run[DUE] or 0, back or 0))
end

-- Completed tasks in thousandths a second, over the last two slots and the present one.
local function rateOf(queue)
  local slot, sum = floor(turn.now / 5000), 0
  for _, count in ipairs(call('HMGET', P .. 'counts:' .. queue, 'rc:' .. slot, 'rc:' .. slot - 1, 'rc:' .. slot - 2)) do
    sum = sum + tonumber(count or 0)
  end
  return floor(sum * 1000000 / (10000 + turn.now % 5000))
end

for at = batchAt, #ARGV, 5 do
  local queue, seen = ARGV[at], tonumber(ARGV[at + 4])
  local known, key = queueOf(queue), P .. 'level:' .. queue
  if known.admission then
    call('HSET', key, 'd:' .. daemon, ARGV[at + 1] .. ' ' .. ARGV[at + 2] .. ' ' .. ARGV[at + 3] .. ' ' .. int(turn.lease))
    local rule = admission.of(known)
    local credit, level, why = said(key)
    local byDepth = admission.levelAt(rule, rule.depth)
    if byDepth >= level then level, why = byDepth, 'depth' end
    if level < rule.level and seen ~= rule.level then level = rule.level end
    admission.settle(rule, level, rule.depth, why)
    rows[#rows + 1] = { queue, level, rule.depth, int(oldestMs(queue)), int(rateOf(queue)),
      call('ZCARD', P .. 'active:' .. queue), int(credit), known.admission }
  else
    -- Switched off: nobody is under pressure any more, and nothing of it is kept.
    local level = tonumber(call('HGET', key, 'level') or 0)
    if level > 0 then
      emit('pressure.changed', known.json, fmt('{"queue":%s,"level":0,"was":%d,"why":"off","depth":%d}', known.json, level,
        admission.depth(queue)))
    end
    call('DEL', key)
    call('ZREM', P .. 'admissions', queue)
  end
end
return turn.close({ turn.nowText, rows })
