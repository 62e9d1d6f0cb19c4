-- @include session
local function endSession(known, type, reason)
  call('HSET', P .. 'session:' .. known.id, 'ended', reason)
  call('ZREM', P .. 'sessions', known.id)
  call('ZREM', P .. 'grace', known.id)
  call('ZADD', P .. 'ending', int(turn.now), known.id)
  known.alive = false
  emit(type, json(known.id), '{' .. known.holder .. ',"reason":"' .. reason .. '"}')
end
