-- Clocks that should have run by now, whatever set they stand in: if the first of a set is late, nobody sweeps. And sets
-- that stand beside another one. Args: lateMs. Answers findings as rows {id, what, have, expected}.
-- @include reading
local rows, now, lease, late = {}, nowMs(), nowMs() - skewMs(), tonumber(lateMs)
local function found(id, what, have, expected) rows[#rows + 1] = { id, what, tostring(have), tostring(expected) } end
local function first(set, clock)
  local head = call('ZRANGE', P .. set, 0, 0, 'WITHSCORES')
  local behind = head[2] and clock - tonumber(head[2]) or 0
  if behind > late then found('late', set .. ' ' .. head[1], string.format('%.0f', behind), string.format('%.0f', late)) end
end
first('timers', now)
first('wake', now)
first('leases', lease)
first('lockDue', lease)
first('limitDue', lease)
first('limitWake', now)
first('onceDue', lease)
first('grace', lease)
first('ending', now)
-- A clock belongs to an attempt, or to a task that has not ended; one that stays would end a later attempt too early.
local OPEN = { ready = true, scheduled = true, blocked = true, active = true }
for set, states in pairs({ leases = { active = true }, timers = OPEN }) do
  for _, member in ipairs(call('ZRANGE', P .. set, 0, 199)) do
    local id = string.sub(member, 2)
    local packed = call('GET', P .. 'run:' .. id)
    local state = packed and cmsgpack.unpack(packed)[STATE] or call('EXISTS', P .. 'task:' .. id) == 1 and 'ready' or 'gone'
    if not states[state] then found('stray', set .. ' ' .. member, state, 'a task with this clock') end
  end
end
local published, at = call('HLEN', P .. 'published'), call('ZCARD', P .. 'publishedAt')
if published ~= at then found('published', 'ids of published events', published, at) end
return rows
