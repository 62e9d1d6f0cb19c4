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
if item and adapted ~= '' and item.dims[adapted] then item.dims[adapted].now = nil end
item = limit.reopen(item, name)
emit('limit.defined', item.json, '{"limit":' .. item.json .. ',"definition":' .. text .. '}')
return turn.close({ limit.flush() })
