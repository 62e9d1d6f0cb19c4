-- The end of a session, the same on every road. Marking it comes first and is one step; what it holds may be more than
-- one script should touch and follows in pages (lease/give-back.lua). One that holds nothing is forgotten at once.
-- @include session
local function endSession(known, type, reason)
  call('ZREM', P .. 'sessions', known.id)
  call('ZREM', P .. 'sessionNames', known.id)
  call('ZREM', P .. 'grace', known.id)
  if call('EXISTS', P .. 'held:' .. known.id) == 1 then
    call('HSET', P .. 'session:' .. known.id, 'ended', reason)
    call('ZADD', P .. 'ending', int(turn.now), known.id)
  else call('DEL', P .. 'session:' .. known.id) end
  known.alive, known.ended = false, true
  emit(type, json(known.id), '{' .. known.holder .. ',"reason":"' .. reason .. '"}')
end
