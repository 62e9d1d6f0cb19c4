#!lua flags=allow-oom
-- An operator takes a lock from whoever holds it, at most 200 holders a call (fewer if they hold much else) and none that got it later than `ceiling` (a
-- fence; '' for now). Args: display, name, caller, agent, reason, ceiling. Answers the ceiling, whether more are left, the
-- victims as rows {grant, session, agent, fence}, and whether queues are left to go on with.
-- @include lock-grant
local key, victims = P .. 'lockHolds:' .. name, {}
local top = ceiling ~= '' and ceiling or int(turn.last)
local ids, weight = {}, 0
for _, id in ipairs(call('ZRANGEBYSCORE', key, '-inf', top, 'LIMIT', 0, 200)) do
  if weight >= 200 then break end
  local grant = lock.load(id)
  ids[#ids + 1], weight = id, weight + (grant and grant.nodes and lock.weight(grant) or 1)
end
if #ids > 0 then
  emit('lock.broken', json(display), '{"lock":' .. json(display) .. ',"session":' .. json(caller) .. ',"agent":' .. json(agent) ..
    ',"reason":' .. json(reason) .. ',"holders":' .. #ids .. '}')
end
for _, id in ipairs(ids) do
  local grant = lock.load(id)
  if grant and grant.state == 'held' then
    victims[#victims + 1] = { id, grant.session, grant.agent, int(grant.fence) }
    lock.free(id, grant, 'broken', ',"message":' .. json(reason))
  else call('ZREM', key, id) end
end
local more = call('ZCOUNT', key, '-inf', top) > 0
if not more then lock.pump() end
lock.flush()
return turn.close({ top, more and 1 or 0, victims, lock.left and 1 or 0 })
