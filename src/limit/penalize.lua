#!lua flags=allow-oom
-- One agent has met a 429; without this every other one would find out by itself, again and again. It only tightens: a
-- shorter pause does not end a longer one, and whoever was trying it has failed. Args: caller, binding, name, afterMs,
-- code ('' for none), rampMs.
-- @include limit-wait
if not speaks(caller, binding) then return refuse('SESSION_LOST') end
local item = limit.get(name)
if not item then return refuse('NOT_FOUND', '{"message":"no such limit; limit.define makes one"}') end
limit.block(item, tonumber(afterMs), tonumber(rampMs))
emit('limit.penalized', item.json, '{"limit":' .. item.json .. ',' .. session(caller).holder .. ',"untilAt":"' ..
  iso(item.blockedUntil) .. '"' .. (code ~= '' and ',"code":' .. json(code) or '') .. '}')
local untilMs = int(item.blockedUntil)
return turn.close({ untilMs, limit.flush() })
