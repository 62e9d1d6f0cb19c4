#!lua flags=allow-oom
-- The clocks of limits: leases of reservations and ends of waits by the lease clock, refills and gauges by Redis' own. At
-- most 100 of each a call. Answers milliseconds to the next one, or ''.
-- @include limit-wait
local function untilNext(key, now)
  local soonest = call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')[2]
  return soonest and math.max(0, tonumber(soonest) - now)
end

local due = call('ZRANGEBYSCORE', P .. 'limitDue', '-inf', int(turn.lease), 'LIMIT', 0, 100)
local ids = {}
for i, member in ipairs(due) do ids[i] = string.sub(member, 2) end
limit.preload(ids)
for i, id in ipairs(ids) do
  local r, wanted = limit.load(id), string.sub(due[i], 1, 1) == 'w' and 'waiting' or 'granted'
  if not r or r.state ~= wanted or not limit.giveBack(id, r, 'leaseLapsed', 'timeout') then
    call('ZREM', P .. 'limitDue', due[i])
  end
end
local woken = call('ZRANGEBYSCORE', P .. 'limitWake', '-inf', turn.nowText, 'LIMIT', 0, 100)
for _, name in ipairs(woken) do
  local item = limit.get(name)
  call('ZREM', P .. 'limitWake', name)
  if item then item.wake, item.dirty = nil, true end
end
limit.flush()
turn.touched = #due + #woken > 0
local ends, wakes = untilNext('limitDue', turn.lease), untilNext('limitWake', turn.now)
local soonest = ends and wakes and math.min(ends, wakes) or ends or wakes
return turn.close({ soonest and int(soonest) or '' })
