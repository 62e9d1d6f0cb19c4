-- Brings dead and expired tasks back: attempts and refunds at 0, a new place at the end, old deadlines forgotten (they
-- are what ended many of them). A key that another task has taken meanwhile refuses its item, and so does a kind that would
-- be one too many by now. Args: queue, set, kind, tenant, cursor as in purge, kindsMax; then ids, or nothing.
-- @include finish
-- @include kinds
-- @include pages
local count, results, nextCursor, brought = 0, {}, '', {}

local function bring(id)
  local head = task.header(id)
  if not head or head.queue ~= queue then return '!NOT_FOUND' end
  local run = task.runs({ id })[id]
  local state = run and not brought[id] and run[STATE] or 'ready'
  if state ~= 'dead' and state ~= 'expired' then
    return '!CONFLICT {"message":"only dead and expired tasks are redriven","state":"' .. state .. '"}'
  end
  if (kind ~= '\0' and head.kind ~= kind) or (tenant ~= '\0' and head.tenant ~= tenant) then return nil end
  if head.key ~= '' then
    local holder = call('HGET', P .. 'keys:' .. queue, head.key)
    local window = holder and tonumber(call('ZSCORE', P .. 'windowed:' .. queue, holder) or false)
    if holder and holder ~= id and not (window and window <= turn.now) then
      return '!KEY_CONFLICT {"task":' .. json(holder) .. '}'
    end
  end
  local refusal = kindRefused(queue, head.kind, tonumber(kindsMax))
  if refusal then return refusal end
  if head.key ~= '' then call('HSET', P .. 'keys:' .. queue, head.key, id) end
  if head.deadline or head.startBy then
    head = parseHead(id, call('GET', P .. 'task:' .. id))
    head.deadline, head.startBy = nil, nil
    put('task:' .. id, joinHead(head))
  end
  remove(P .. state .. ':' .. queue, id)
  run[STATE], run[ATTEMPT], run[REFUNDS], run[ENDED], run[TIMERS] = 'ready', 0, 0, false, ''
  run[SESSION], run[WORKER], run[AGENT], run[STARTED], run[ENDING] = false, false, false, false, false
  run[RESULT], run[FAULT], run[PROGRESS] = false, false, false
  run[SCORE] = place(queueOf(queue), head.priority)
  unfinished(head, 1)
  toReady(head, run[SCORE])
  save(id, run)
  tell('task.redriven', head, ',"state":"ready","from":"' .. state .. '"')
  count, brought[id] = count + 1, true
  return 'ready'
end

if ARGV[batchAt] then
  for i = batchAt, #ARGV do results[#results + 1] = bring(ARGV[i]) or '!NOT_FOUND' end
else
  local rows = pageOf(P .. set .. ':' .. queue, cursor, 200)
  if not rows then return refuse('BAD_REQUEST', '{"message":"cursor is not one this op gave","path":"cursor"}') end
  local kept = cursor
  for i = 1, #rows, 2 do
    local before = count
    bring(rows[i])
    if count == before then kept = rows[i + 1] .. ' ' .. rows[i] end
  end
  if #rows == 400 then nextCursor = kept == '' and '0 ' or kept end
end
task.flush()
return turn.close({ count, nextCursor, results })
