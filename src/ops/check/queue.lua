-- Counters of one queue against the sets they stand beside, in one moment. Reads at most `max` tenants. Args: queue, max.
-- Answers findings as rows {id, what, have, expected}, and what was left out.
-- @include reading
local rows, skipped, left = {}, {}, tonumber(max)
local function expect(id, what, have, expected)
  if have ~= expected then rows[#rows + 1] = { id, what, tostring(have), tostring(expected) } end
end
local function size(set) return call('ZCARD', P .. set .. ':' .. queue) end
local waiting, blocked, scheduled, active = size('waiting'), size('blocked'), size('scheduled'), size('active')

local sums = { w = 0, a = 0, b = 0 }
local counted = call('HGETALL', P .. 'counts:' .. queue)
for i = 1, #counted, 2 do
  local letter = string.match(counted[i], '^([wab]):')
  if letter then sums[letter] = sums[letter] + tonumber(counted[i + 1]) end
end
expect('counters', 'waiting by kind', sums.w, waiting)
expect('counters', 'waiting by band', sums.b, waiting)
expect('counters', 'active by kind', sums.a, active)

local function sumOf(set, what, expected)
  local key = P .. set .. ':' .. queue
  local members = call('ZCARD', key)
  if members > left then
    skipped[#skipped + 1] = what
    return
  end
  left = left - members
  local sum, pairs = 0, call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 2, #pairs, 2 do sum = sum + tonumber(pairs[i]) end
  expect('counters', what, sum, expected)
end
sumOf('share', 'waiting by tenant', waiting)
sumOf('busy', 'active by tenant', active)
sumOf('lanes', 'unfinished by kind', waiting + blocked + scheduled + active)

-- Lanes: every ready task stands in exactly one, and every lane with a task has its tenant in turn.
local lanes, whole = 0, true
for _, kind in ipairs(call('ZRANGE', P .. 'lanes:' .. queue, 0, 63)) do
  local turn = P .. 'tenants:' .. #queue .. ':' .. queue .. ':' .. kind
  local tenants = call('ZCARD', turn)
  if tenants > left then whole = false
  else
    left = left - tenants
    for _, tenant in ipairs(call('ZRANGE', turn, 0, -1)) do
      local ready = call('ZCARD', P .. 'lane:' .. #queue .. ':' .. #kind .. ':' .. queue .. ':' .. kind .. ':' .. tenant)
      lanes = lanes + ready
      if ready == 0 then expect('lanes', 'tenant ' .. tenant .. ' of kind "' .. kind .. '" has its turn without a task', ready, 1) end
    end
  end
end
if whole then expect('lanes', 'ready tasks in lanes whose tenant has its turn', lanes, waiting) else skipped[#skipped + 1] = 'lanes' end

local due = call('ZRANGE', P .. 'scheduled:' .. queue, 0, 0, 'WITHSCORES')[2]
local wake = call('ZSCORE', P .. 'wake', queue)
if due and not (wake and tonumber(wake) <= tonumber(due)) then expect('wake', 'the next scheduled task', wake or 'never', due) end
local top = call('ZRANGE', P .. 'waiting:' .. queue, 0, 0, 'REV', 'WITHSCORES')[2]
local seq = tonumber(call('HGET', P .. 'queue:' .. queue, 'seq') or 0)
if top and tonumber(top) > seq then expect('seq', 'the place counter is behind the last place', seq, top) end
return { rows, skipped, call('ZSCORE', P .. 'queues', queue) and 1 or 0 }
