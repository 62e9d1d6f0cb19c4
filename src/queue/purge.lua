#!lua flags=allow-oom
-- Removes tasks page by page: a queue of a million is emptied by many short scripts, never by a long one. Args: queue,
-- set (a state's set), kind, tenant (\0 for any: no name can be it), cursor; then ids, or nothing to go by the cursor.
-- Answers the number removed, where to go on, and one text an id.
-- @include finish
-- @include pages
local removed, results, nextCursor, taken = 0, {}, '', {}

local function take(id)
  local head = task.header(id)
  -- What this script has taken is written at its end only.
  if not head or taken[id] then return '!NOT_FOUND' end
  local run = task.runs({ id })[id] or nil
  local state = run and run[STATE] or 'ready'
  if head.queue ~= queue then return '!NOT_FOUND' end
  if state == 'active' or (set ~= '' and state ~= (set == 'windowed' and 'completed' or set)) or (set == '' and state ~= 'ready' and state ~= 'scheduled' and state ~= 'blocked') then
    return '!CONFLICT {"message":"the task is in another state","state":"' .. state .. '"}'
  end
  if (kind ~= '\0' and head.kind ~= kind) or (tenant ~= '\0' and head.tenant ~= tenant) then return nil end
  if state == 'ready' or state == 'scheduled' then
    if state == 'ready' then fromReady(head) else fromScheduled(head, run) end
    if run then disarm(run, id, 'sdltg')
    else
      if head.startBy then remove(P .. 'timers', 's' .. id) end
      if head.deadline then remove(P .. 'timers', 'd' .. id) end
    end
    unfinished(head, -1)
  else
    remove(P .. state .. ':' .. queue, id)
    if state == 'completed' then remove(P .. 'windowed:' .. queue, id) end
  end
  freeKey(head)
  taken[id] = true
  gone[#gone + 1], gone[#gone + 2] = P .. 'task:' .. id, P .. 'run:' .. id
  tell('task.removed', head, ',"state":"' .. state .. '","reason":"purged"')
  removed = removed + 1
  return state
end

if ARGV[batchAt] then
  for i = batchAt, #ARGV do
    local id = ARGV[i]
    results[#results + 1] = take(id) or '!NOT_FOUND'
  end
else
  local word = set == 'ready' and 'waiting' or set
  local rows = pageOf(P .. word .. ':' .. queue, cursor, 200)
  if not rows then return refuse('BAD_REQUEST', '{"message":"cursor is not one this op gave","path":"cursor"}') end
  local kept = cursor
  for i = 1, #rows, 2 do
    local id = set == 'scheduled' and string.sub(rows[i], 17) or rows[i]
    local before = removed
    take(id)
    if removed == before then kept = rows[i + 1] .. ' ' .. rows[i] end
  end
  if #rows == 400 then nextCursor = kept == '' and '0 ' or kept end
end
if removed > 0 then
  emit('queue.purged', name(queue), '{"queue":' .. name(queue) .. ',"count":' .. removed .. '}')
end
task.flush()
return turn.close({ removed, nextCursor, results })
