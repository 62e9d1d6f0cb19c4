-- What the limits say is reserved and waited for, against the reservations that live sessions and ended ones still have, all
-- in one moment: a slot whose reservation is gone is lost for ever, and nobody would notice. Reads at most `max`
-- sessions, holdings and limits. Args: max. Answers findings as rows {id, what, have, expected}, and what was left out.
-- @include reading
local rows, left = {}, tonumber(max)
local function int(number) return string.format('%.0f', number) end
local function found(id, what, have, expected) rows[#rows + 1] = { id, what, tostring(have), tostring(expected) } end
local function expect(id, what, have, expected)
  if have ~= expected then found(id, what, int(have), int(expected)) end
end
local function take(count)
  left = left - count
  return left >= 0
end

-- Of one limit: what its reservations have by dimension, and how many wait in its queue and beside it.
local counts = {}
local function countOf(name)
  counts[name] = counts[name] or { reserved = {}, queued = 0, parked = 0 }
  return counts[name]
end

local function count(id, r)
  local clock = r.state == 'waiting' and 'w' or r.lease and 'e'
  if r.state ~= 'waiting' and r.state ~= 'granted' then return end
  if clock and not call('ZSCORE', P .. 'limitDue', clock .. id) then
    found('limitClock', id, 'no clock', clock == 'w' and 'the end of its wait' or 'the end of its lease')
  end
  local of = countOf(r.limit)
  if r.state == 'waiting' then
    if r.parked then of.parked = of.parked + 1 else of.queued = of.queued + 1 end
    return
  end
  for dimension, n in pairs(r.cost) do of.reserved[dimension] = (of.reserved[dimension] or 0) + n end
end

local function countHeld(id)
  local key = P .. 'held:' .. id
  if not take(1 + call('ZCARD', key)) then return false end
  local ids, names = {}, {}
  for _, member in ipairs(call('ZRANGE', key, 0, -1)) do
    if string.sub(member, 1, 1) == 'r' then
      ids[#ids + 1] = string.sub(member, 2)
      names[#names + 1] = P .. 'reservation:' .. ids[#ids]
    end
  end
  for from = 1, #names, 200 do
    local page = call('MGET', unpack(names, from, math.min(from + 199, #names)))
    for i, packed in ipairs(page) do
      local r = packed and cmsgpack.unpack(packed)
      if r and r.session == id then count(ids[from + i - 1], r) end
    end
  end
  return true
end

local function checkLimit(name)
  local packed = call('HGET', P .. 'limit:' .. name, 'now')
  local now, of = packed and cmsgpack.unpack(packed) or { dims = {}, waiting = 0 }, countOf(name)
  for dimension, dim in pairs(now.dims) do
    local what = name .. ', ' .. dimension
    expect('reserved', what .. ', reserved', dim.reserved, of.reserved[dimension] or 0)
    -- In use is what is reserved: only a settle brings it back.
    if dim.mode == 'held' then expect('reserved', what .. ', in use', dim.total, dim.reserved) end
    local charged = 0
    for i = 3, dim.ring and #dim.ring or 0, 3 do charged = charged + dim.ring[i] end
    if dim.ring then expect('reserved', what .. ', charged in slices', charged, dim.total) end
  end
  local queued = call('ZCARD', P .. 'limitWaits:' .. name)
  expect('queued', name .. ', waiting', now.waiting, queued)
  expect('queued', name .. ', in its queue', queued, of.queued)
  expect('queued', name .. ', beside its queue', now.parked or 0, of.parked)
end

local function skip() return { {}, { 'reservations of limits: more than ' .. max .. ' holdings' } } end

for _, set in ipairs({ 'sessions', 'ending' }) do
  local ids = call('ZRANGE', P .. set, 0, left)
  for _, id in ipairs(ids) do
    if not countHeld(id) then return skip() end
  end
end
local names = call('ZRANGE', P .. 'limits', 0, left)
if not take(#names) then return skip() end
for _, name in ipairs(names) do checkLimit(name) end
return { rows, {} }
