#!lua flags=allow-oom
-- Reserves and settles of many connections, in the order in which they came; at most waitersMax wait for one limit. Two
-- callers that read "0 used" and both went would break the limit; here the check of every dimension and the charge of all of
-- them are one step, and a refusal has charged nothing. In ARGV from batchAt: how many, the reservation of each, then each:
--   r session binding limit waitMs leaseMs weight key n, then n times dimension amount
--   s session binding n, then n times dimension amount
-- Answers for each '!CODE …' or words parted by tabs; and milliseconds to the next moment at which one of the limits needs
-- a look.
-- @include limit-wait
-- @include memory-short
local function keyed(at, count)
  local amounts = {}
  for i = at, at + 2 * (count - 1), 2 do amounts[ARGV[i]] = tonumber(ARGV[i + 1]) end
  return amounts
end

local function unknown(name)
  return '!INVALID {"message":"the limit has no such dimension","dimension":' .. json(name) .. '}'
end

-- Asks of one batch mostly differ in their fence and in what is left: the rest is made into text once.
local texts = {}
local function text(number)
  local known = texts[number]
  if not known then known = int(number); texts[number] = known end
  return known
end

local function told(item, id, r)
  local rest = limit.remaining(item) .. '\t' .. text(limit.resetMs(item))
  if r.state == 'waiting' then
    local rank = call('ZRANK', P .. 'limitWaits:' .. item.name, r.ticket .. '\0' .. id)
    return 'waiting\t' .. int((rank or item.waiting) + 1) .. '\t\t' .. rest
  end
  return 'granted\t' .. int(r.fence) .. '\t' .. text(limit.validMs(r)) .. '\t' .. rest
end

-- The same request again: a reply may be lost after the work was done.
local function again(item, id, r, owner, key)
  if r.session ~= owner or r.limit ~= item.name or r.key ~= key then
    return '!CONFLICT {"message":"this reservation id is taken by another request"}'
  end
  if r.state == 'granted' or r.state == 'waiting' then return told(item, id, r) end
  return '!CONFLICT {"message":"this reservation has ended; a new one needs an id of its own","state":"' .. r.state .. '"}'
end

-- A bucket that fills slowly may take a thousand years: no duration is longer than 366 days, no instant behind the year 9999.
local longestMs, latest = 31622400000, 253402300799999

local function limited(item, ms, dim)
  local details = { '"limit":' .. item.json, '"remaining":' .. limit.remaining(item), '"waiting":' .. int(item.waiting) }
  if dim then details[#details + 1] = '"dimension":' .. dim.json end
  if item.phase == 'blocked' then details[#details + 1] = '"blockedUntilAt":"' .. iso(item.blockedUntil) .. '"' end
  if item.waiting > 0 then ms = math.max(ms, (item.headAt or 0) - turn.now) end
  -- What a settle frees comes at no known time; a budget does not come back by waiting.
  if ms >= dims.none and (not dim or dim.mode == 'held') then ms = 1000 end
  if ms < dims.none then details[#details + 1] = '"afterMs":' .. int(math.min(math.max(ms, 1), longestMs)) end
  return '!LIMITED {' .. concat(details, ',') .. '}'
end

local function reserve(id, at)
  local owner, binding, name, waitMs, leaseMs, weight, key, count = unpack(ARGV, at + 1, at + 8)
  if not speaks(owner, binding) then return '!SESSION_LOST' end
  local item, r = limit.get(name), limit.load(id)
  if not item then return '!NOT_FOUND {"message":"no such limit; limit.define makes one","limit":' .. json(name) .. '}' end
  limit.asking = id
  if item.waiting > 0 and item.look then limit.pump(item); r = limit.load(id) end
  if r then return again(item, id, r, owner, key) end
  if memoryIsShort() then return memoryRefusal end
  local cost, never = keyed(at + 9, count), nil
  for dimension, n in pairs(cost) do
    local dim = item.dims[dimension]
    if not dim then return unknown(dimension) end
    if n > dim.most then never = dimension end
  end
  if never then
    return '!NEVER_FITS {"message":"it asks for more than the limit ever has","limit":' .. item.json .. ',"dimension":' ..
      json(never) .. ',"most":' .. int(item.dims[never].most) .. '}'
  end
  local ms, dim = limit.waitMs(item, cost)
  if ms == 0 and item.waiting == 0 then
    -- Made in one piece, with room for what the grant puts in: a table that grows costs more than all that is in it.
    r = { limit = name, session = owner, agent = session(owner).agent, cost = cost, lease = tonumber(leaseMs), key = key,
      state = false, fence = 0, at = 0 }
    limit.grant(item, id, r)
    return told(item, id, r)
  end
  waitMs = tonumber(waitMs)
  if ms > 0 or waitMs > 0 then limit.saturate(item, dim) end
  if waitMs == 0 or item.waiting >= tonumber(waitersMax) then return limited(item, ms, dim) end
  r = { limit = name, session = owner, agent = session(owner).agent, cost = cost, lease = tonumber(leaseMs), key = key,
    weight = tonumber(weight) }
  limit.wait(item, id, r, waitMs)
  -- Told before anything comes of it: an ask that is fairly first may be granted by the very pump that it brings about.
  local ahead = call('ZRANK', P .. 'limitWaits:' .. item.name, r.ticket .. '\0' .. id)
  local resumes = ahead == 0 and ms < dims.none and turn.now + ms or ahead > 0 and item.headAt
  limit.tell('limit.waiting', item, id, r, ',"place":' .. int(ahead + 1) .. ',"endsAt":"' .. iso(turn.now + waitMs) .. '"' ..
    (resumes and resumes <= latest and ',"resumesAt":"' .. iso(resumes) .. '"' or ''))
  limit.pump(item)
  return told(item, id, r)
end

local function settle(id, at)
  local owner, binding, count = unpack(ARGV, at + 1, at + 3)
  if not speaks(owner, binding) then return '!SESSION_LOST' end
  local r = limit.load(id)
  local item = r and r.session == owner and limit.get(r.limit)
  if not item or r.state == 'lost' then
    return '!NOT_FOUND {"message":"this reservation is not yours, or has ended' ..
      (item and ' and counts as spent' or '') .. '"}'
  end
  if r.state == 'waiting' then limit.endWait(item, id, r, 'cancelled')
  elseif r.state == 'granted' then
    local actual = keyed(at + 4, count)
    for dimension in pairs(actual) do
      -- What was reserved may have been defined away since; the call was made all the same, and has to come to its end.
      if not item.dims[dimension] and not r.cost[dimension] then return unknown(dimension) end
    end
    limit.settle(item, id, r, actual)
  end
  local debts = {}
  for _, dim in ipairs(item.list) do
    local left = dims.left(dim)
    if left < 0 and dim.mode ~= 'held' then debts[#debts + 1] = dim.json .. ':' .. int(-left) end
  end
  return 'settled\t' .. limit.remaining(item) .. '\t' .. (#debts > 0 and '{' .. concat(debts, ',') .. '}' or '')
end

local count, results = tonumber(ARGV[batchAt]), {}
local at, ids = batchAt + 1 + count, { unpack(ARGV, batchAt + 1, batchAt + count) }
limit.preload(ids)
for i, id in ipairs(ids) do
  if ARGV[at] == 'r' then
    results[i] = reserve(id, at)
    at = at + 9 + 2 * ARGV[at + 8]
  else
    results[i] = settle(id, at)
    at = at + 4 + 2 * ARGV[at + 3]
  end
end
local soonest = limit.flush()
return turn.close({ results, soonest })
