-- Keys that belong to something: is it there? The keys stand in ARGV behind the named arguments, without their prefix.
-- Answers findings as rows {id, key, have, expected}, and the type of every key.
-- @include reading
local rows, types = {}, {}
local function found(id, key, have, expected) rows[#rows + 1] = { id, key, tostring(have), tostring(expected) } end
local SET = { ready = 'waiting' }
-- What is remembered for a minute beyond its end, so that a request that comes again is answered.
local REMEMBERED = { reservation = true, grant = true, lock = true }

-- A task stands in the set of its state, or nobody will ever find it again.
local function checkTask(key, id)
  local head = call('GETRANGE', P .. key, 0, 1500)
  if head == '' then return end
  local queue = string.match(head, '^%Z*%z%Z*%z%Z*%z(%Z*)%z') or ''
  local packed = call('GET', P .. 'run:' .. id)
  local run = packed and cmsgpack.unpack(packed) or { 'ready' }
  local state = run[STATE]
  local member = state == 'scheduled' and string.format('%016.0f', run[DUENO] or 0) .. id or id
  local stands = call('ZSCORE', P .. (SET[state] or state) .. ':' .. queue, member)
    or state == 'completed' and call('ZSCORE', P .. 'windowed:' .. queue, id)
  if not stands then found('orphan', key, 'in no set', state .. ' of ' .. queue) end
end

local function checkKey(key, type)
  local kind, name = string.match(key, '^(%a+):(.*)$')
  if not REMEMBERED[kind] and call('PTTL', P .. key) >= 0 then found('ttl', key, 'ends by itself', 'ends by a script') end
  if kind == 'task' then checkTask(key, name)
  elseif kind == 'run' and call('EXISTS', P .. 'task:' .. name) == 0 then found('orphan', key, 'no task', 'a task')
  elseif kind == 'reservation' and call('PTTL', P .. key) == -1 and type == 'string' then
    local r = cmsgpack.unpack(call('GET', P .. key))
    if not call('ZSCORE', P .. 'held:' .. r.session, 'r' .. name) then found('orphan', key, 'held by nobody', r.session) end
  elseif kind == 'once' and type == 'hash' and not call('ZSCORE', P .. 'onceDue', name) then found('orphan', key, 'no clock', 'the end of its lease or keep')
  elseif kind == 'session' and not call('ZSCORE', P .. 'sessions', name) and not call('ZSCORE', P .. 'ending', name) then
    found('orphan', key, 'neither live nor ending', 'a session')
  elseif kind == 'held' and call('EXISTS', P .. 'session:' .. name) == 0 then found('orphan', key, 'no session', 'a session') end
end

for i = batchAt, #ARGV do
  local type = call('TYPE', P .. ARGV[i]).ok
  types[#types + 1] = type
  -- Gone since it was listed: retention does not wait for us, and what it belonged to went with it.
  if type ~= 'none' then checkKey(ARGV[i], type) end
end
return { rows, types }
