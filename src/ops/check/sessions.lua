-- A page of sessions against what they hold, and of what is left of ended ones. Args: cursor, limit. Answers findings as
-- rows {id, session, have, expected}, where to go on, and how many were looked at.
-- @include reading
-- @include pages
local members = pageOf(P .. 'sessions', cursor, tonumber(limit))
if not members then return { {}, '', 0 } end
local rows, lease = {}, nowMs() - skewMs()
local function found(id, session, have, expected) rows[#rows + 1] = { id, session, tostring(have), tostring(expected) } end

local function unpacked(key)
  local packed = call('GET', P .. key)
  return packed and cmsgpack.unpack(packed)
end
-- By the first letter of a holding: what it should be, and its state and session.
local THINGS = {
  t = { what = 'a task it runs', states = { active = true }, read = function(name)
    local run = unpacked('run:' .. name)
    if run then return run[STATE], run[SESSION] end
  end },
  l = { what = 'a lock it holds or waits for', states = { held = true, waiting = true }, read = function(name)
    local grant = unpacked('grant:' .. name)
    if grant then return grant.state, grant.session end
  end },
  r = { what = 'a reservation it has or waits for', states = { granted = true, waiting = true }, read = function(name)
    local r = unpacked('reservation:' .. name)
    if r then return r.state, r.session end
  end },
  o = { what = 'a once key it began', states = { inProgress = true }, read = function(name)
    local row = call('HMGET', P .. 'once:' .. name, 'state', 'session')
    return row[1] or nil, row[2]
  end },
}

for i = 1, #members, 2 do
  local id = members[i]
  local row = call('HMGET', P .. 'session:' .. id, 'agent', 'ended')
  if not row[1] then found('session', id, 'no record', 'a session')
  elseif row[2] then found('session', id, 'ended ' .. row[2], 'not among the live ones') end
  if tonumber(members[i + 1]) < lease - 10000 then found('overdue', id, string.format('%.0f', lease - tonumber(members[i + 1])), '10000') end
  for _, held in ipairs(call('ZRANGE', P .. 'held:' .. id, 0, 99)) do
    local thing = THINGS[string.sub(held, 1, 1)]
    local name = string.sub(held, 2)
    local state, owner
    if thing then state, owner = thing.read(name) end
    if not thing then found('holding', id, held, 'a holding of a known kind')
    elseif owner ~= id or not thing.states[state] then found('holding', id, name .. ' ' .. (state or 'gone'), thing.what) end
  end
end
local more = #members == 2 * tonumber(limit)
return { rows, more and members[#members] .. ' ' .. members[#members - 1] or '', #members / 2 }
