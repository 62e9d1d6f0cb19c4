-- A page of sessions against what they hold, and of what is left of ended ones. Args: cursor, limit. Answers findings as
-- rows {id, session, have, expected}, where to go on, and how many were looked at.
-- @include reading
-- @include pages
local members = pageOf(P .. 'sessions', cursor, tonumber(limit))
if not members then return { {}, '', 0 } end
local rows, lease = {}, nowMs() - skewMs()
local function found(id, session, have, expected) rows[#rows + 1] = { id, session, tostring(have), tostring(expected) } end

for i = 1, #members, 2 do
  local id = members[i]
  local row = call('HMGET', P .. 'session:' .. id, 'agent', 'ended')
  if not row[1] then found('session', id, 'no record', 'a session')
  elseif row[2] then found('session', id, 'ended ' .. row[2], 'not among the live ones') end
  if tonumber(members[i + 1]) < lease - 10000 then found('overdue', id, string.format('%.0f', lease - tonumber(members[i + 1])), '10000') end
  for _, held in ipairs(call('ZRANGE', P .. 'held:' .. id, 0, 99)) do
    if string.sub(held, 1, 1) == 't' then
      local packed = call('GET', P .. 'run:' .. string.sub(held, 2))
      local run = packed and cmsgpack.unpack(packed)
      if not run or run[STATE] ~= 'active' or run[SESSION] ~= id then
        found('holding', id, string.sub(held, 2) .. ' ' .. (run and run[STATE] or 'gone'), 'a task it runs')
      end
    elseif string.sub(held, 1, 1) == 'o' then
      local row = call('HMGET', P .. 'once:' .. string.sub(held, 2), 'state', 'session')
      if row[1] ~= 'inProgress' or row[2] ~= id then
        found('holding', id, string.sub(held, 2) .. ' ' .. (row[1] or 'gone'), 'a once key it began')
      end
    end
  end
end
local more = #members == 2 * tonumber(limit)
return { rows, more and members[#members] .. ' ' .. members[#members - 1] or '', #members / 2 }
