-- A page of one set of a queue against the records of its tasks. Args: queue, set, cursor, limit. Answers findings as rows
-- {id, task, have, expected}, where to go on, and how many were looked at.
-- @include reading
-- @include pages
local members = pageOf(P .. set .. ':' .. queue, cursor, tonumber(limit))
if not members then return { {}, '', 0 } end
local rows = {}
local function found(id, task, have, expected) rows[#rows + 1] = { id, task, tostring(have), tostring(expected) } end
local wanted = ({ waiting = 'ready', windowed = 'completed' })[set] or set

local function checkActive(id, run)
  local session = run[SESSION]
  if not session or call('EXISTS', P .. 'session:' .. session) == 0 then
    found('holder', id, session or 'nobody', 'a live session')
    return
  end
  if not call('ZSCORE', P .. 'held:' .. session, 't' .. id) then found('held', id, 'not held', session) end
  for letter in string.gmatch(run[TIMERS] or '', '[ltg]') do
    if not call('ZSCORE', P .. 'leases', letter .. id) then found('clocks', id, 'no ' .. letter, 'armed') end
  end
end

local function checkReady(id, score, head)
  local kind, tenant = string.match(head, '^%Z*%z%Z*%z%Z*%z%Z*%z(%Z*)%z(%Z*)%z')
  local place = call('ZSCORE', P .. 'lane:' .. #queue .. ':' .. #kind .. ':' .. queue .. ':' .. kind .. ':' .. tenant, id)
  if not place then found('lane', id, 'in no lane', kind .. '/' .. tenant)
  elseif tonumber(place) % 70368744177664 ~= tonumber(score) then found('lane', id, place, score) end
end

for i = 1, #members, 2 do
  local id = set == 'scheduled' and string.sub(members[i], 17) or members[i]
  local head = call('GETRANGE', P .. 'task:' .. id, 0, 1500)
  if head == '' then found('record', id, 'no record', wanted)
  else
    local packed = call('GET', P .. 'run:' .. id)
    local run = packed and cmsgpack.unpack(packed) or { 'ready' }
    local of = string.match(head, '^%Z*%z%Z*%z%Z*%z(%Z*)%z')
    if of ~= queue then found('queue', id, of, queue) end
    if run[STATE] ~= wanted then found('state', id, run[STATE], wanted)
    elseif set == 'active' then checkActive(id, run)
    elseif set == 'waiting' then checkReady(id, members[i + 1], head)
    elseif set == 'scheduled' and run[DUE] ~= tonumber(members[i + 1]) then found('due', id, run[DUE], members[i + 1]) end
  end
end
local more = #members == 2 * tonumber(limit)
return { rows, more and members[#members] .. ' ' .. members[#members - 1] or '', #members / 2 }
