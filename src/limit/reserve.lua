#!lua flags=allow-oom
-- Reserves and settles of many connections, in the order in which they came; at most waitersMax wait for one limit. Two callers that read "0 used" and both went
-- would break the limit; here the check of every dimension and the charge of all of them are one step, and a refusal has
-- charged nothing. Each in ARGV from batchAt:
--   r session binding reservation limit waitMs leaseMs weight key n, then n times dimension amount
--   s session binding reservation n, then n times dimension amount
-- Answers for each '!CODE …', or a list of words; and milliseconds to the next moment at which one of the limits needs a look.
-- @include limit-wait
local function keyed(at, count)
  local amounts = {}
  for i = at, at + 2 * (count - 1), 2 do amounts[ARGV[i]] = tonumber(ARGV[i + 1]) end
  return amounts
end

local function unknown(item, amounts)
  for name in pairs(amounts) do
    if not item.dims[name] then return '!INVALID {"message":"the limit has no such dimension","dimension":' .. json(name) .. '}' end
  end
end

local function told(item, id, r)
  local remaining, resetMs = limit.remaining(item), int(limit.resetMs(item))
  if r.state == 'waiting' then
    local rank = call('ZRANK', P .. 'limitWaits:' .. item.name, r.ticket .. '\0' .. id)
    return { 'waiting', int((rank or item.waiting) + 1), '', remaining, resetMs }
  end
  return { 'granted', int(r.fence), int(limit.validMs(r)), remaining, resetMs }
end

-- The same request again: a reply may be lost after the work was done.
local function again(item, id, r, ask)
  if r.session ~= ask.session or r.limit ~= ask.limit or r.key ~= ask.key then
    return '!CONFLICT {"message":"this reservation id is taken by another request"}'
  end
  if r.state == 'granted' or r.state == 'waiting' then return told(item, id, r) end
  return '!CONFLICT {"message":"this reservation has ended; a new one needs an id of its own","state":"' .. r.state .. '"}'
end

local function limited(item, ms, dim)
  local details = { '"limit":' .. item.json, '"remaining":' .. limit.remaining(item), '"waiting":' .. int(item.waiting) }
  if dim then details[#details + 1] = '"dimension":' .. dim.json end
  if item.phase == 'blocked' then details[#details + 1] = '"blockedUntilAt":"' .. iso(item.blockedUntil) .. '"' end
  if item.waiting > 0 then ms = math.max(ms, (item.headAt or 0) - turn.now) end
  -- What a settle frees comes at no known time; a budget does not come back by waiting.
  if ms >= dims.none and (not dim or dim.mode == 'held') then ms = 1000 end
  if ms < dims.none then details[#details + 1] = '"afterMs":' .. int(math.max(ms, 1)) end
  return '!LIMITED {' .. concat(details, ',') .. '}'
end

local function reserve(id, ask)
  local known = session(ask.session)
  if not speaks(ask.session, ask.binding) then return '!SESSION_LOST' end
  local item, r = limit.get(ask.limit), limit.load(id)
  if not item then return '!NOT_FOUND {"message":"no such limit; limit.define makes one","limit":' .. json(ask.limit) .. '}' end
  if item.waiting > 0 and item.look then limit.pump(item); r = limit.load(id) end
  if r then return again(item, id, r, ask) end
  local wrong = unknown(item, ask.cost)
  if wrong then return wrong end
  local never = limit.neverFits(item, ask.cost)
  if never then
    return '!NEVER_FITS {"message":"it asks for more than the limit ever has","limit":' .. item.json .. ',"dimension":' ..
      json(never) .. ',"most":' .. int(item.dims[never].most) .. '}'
  end
  local ms, dim = limit.waitMs(item, ask.cost)
  r = { limit = ask.limit, session = ask.session, agent = known.agent, cost = ask.cost, weight = ask.weight,
    lease = ask.leaseMs, key = ask.key }
  if ms == 0 and item.waiting == 0 then
    limit.grant(item, id, r)
    return told(item, id, r)
  end
  if ms > 0 or ask.waitMs > 0 then limit.saturate(item, dim) end
  if ask.waitMs == 0 or item.waiting >= tonumber(waitersMax) then return limited(item, ms, dim) end
  limit.wait(item, id, r, ask.waitMs)
  -- Told before anything comes of it: an ask that is fairly first may be granted by the very pump that it brings about.
  local head = call('ZRANK', P .. 'limitWaits:' .. item.name, r.ticket .. '\0' .. id) == 0
  local resumes = head and ms < dims.none and turn.now + ms or not head and item.headAt
  limit.tell('limit.waiting', item, id, r, ',"place":' .. int(item.waiting) .. ',"endsAt":"' .. iso(turn.now + ask.waitMs) .. '"' ..
    (resumes and ',"resumesAt":"' .. iso(resumes) .. '"' or ''))
  limit.pump(item)
  return told(item, id, r)
end

local function settle(id, ask)
  if not speaks(ask.session, ask.binding) then return '!SESSION_LOST' end
  local r = limit.load(id)
  local item = r and r.session == ask.session and limit.get(r.limit)
  if not item or r.state == 'lost' then
    return '!NOT_FOUND {"message":"this reservation is not yours, or has ended' ..
      (item and ' and counts as spent' or '') .. '"}'
  end
  if r.state == 'waiting' then limit.endWait(item, id, r, 'cancelled')
  elseif r.state == 'granted' then
    local wrong = unknown(item, ask.cost)
    if wrong then return wrong end
    limit.settle(item, id, r, ask.cost)
  end
  local debts = {}
  for _, dim in ipairs(item.list) do
    local left = dims.left(dim)
    if left < 0 and dim.mode ~= 'held' then debts[#debts + 1] = dim.json .. ':' .. int(-left) end
  end
  return { 'settled', limit.remaining(item), #debts > 0 and '{' .. concat(debts, ',') .. '}' or '' }
end

local at, asks, ids, results = batchAt, {}, {}, {}
while at <= #ARGV do
  local ask = { kind = ARGV[at], session = ARGV[at + 1], binding = ARGV[at + 2], id = ARGV[at + 3] }
  at = at + 4
  if ask.kind == 'r' then
    ask.limit, ask.waitMs, ask.leaseMs = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    ask.weight, ask.key = tonumber(ARGV[at + 3]), ARGV[at + 4]
    at = at + 5
  end
  local count = tonumber(ARGV[at])
  ask.cost = keyed(at + 1, count)
  at = at + 1 + 2 * count
  asks[#asks + 1], ids[#ids + 1] = ask, ask.id
end
limit.preload(ids)
for i, ask in ipairs(asks) do
  local said = (ask.kind == 'r' and reserve or settle)(ask.id, ask)
  results[i] = type(said) == 'string' and { said } or said
end
local soonest = limit.flush()
return turn.close({ results, soonest })
