-- What a limit is. Other values than now need `change`: two programs that disagree should hear of it. What is used,
-- reserved and waited for stays, dimension by dimension: a limit that is made smaller owes the difference, one that is made
-- larger grants to the waiting at once. Args: name, text (the definition as it is shown), change, adapted (the adaptive
-- dimension, or ''), least, most, targetMs; then rows of dimension, mode, amount, perMs, burst.
-- @include limit-wait
local def = { text = text, dims = {} }
for at = batchAt, #ARGV, 5 do
  def.dims[#def.dims + 1] = { name = ARGV[at], mode = ARGV[at + 1], amount = tonumber(ARGV[at + 2]),
    perMs = tonumber(ARGV[at + 3]), burst = tonumber(ARGV[at + 4]) }
end
if adapted ~= '' then
  def.adaptive = { dimension = adapted, min = tonumber(least), max = tonumber(most), targetMs = tonumber(targetMs) }
end
local item = limit.get(name)
if item and item.def.text == text then return turn.close({ limit.flush() }) end
if item and change ~= '1' then
  return refuse('CONFLICT', '{"message":"the limit is defined otherwise; change:true changes it","definition":' ..
    item.def.text .. '}')
end
call('HSET', P .. 'limit:' .. name, 'def', cmsgpack.pack(def))
call('ZADD', P .. 'limits', 0, name)
for _, dim in ipairs(item and item.list or {}) do
  -- What an adaptive amount had come to, and the part of a unit that was under way by another perMs, were of the old one.
  dim.now = nil
  if dim.rest then dim.rest = 0 end
end
item = limit.reopen(item, name)
emit('limit.defined', item.json, '{"limit":' .. item.json .. ',"definition":' .. text .. '}')
return turn.close({ limit.flush() })
