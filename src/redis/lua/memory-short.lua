-- Whether what would make Redis larger has to wait. The daemon reckons that it is near its memory limit
-- (backpressure/memory.ts, `memoryShort`); only then is Redis itself asked, once a script. What ends or keeps an ownership
-- never asks this: it has the rest of the memory for itself.
local short
local function memoryIsShort()
  if short == nil then
    local info = memoryShort == '1' and call('INFO', 'memory')
    local max = info and tonumber(string.match(info, 'maxmemory:(%d+)')) or 0
    short = max > 0 and tonumber(string.match(info, 'used_memory:(%d+)')) >= 0.87 * max
  end
  return short
end
local memoryRefusal = '!UNAVAILABLE {"message":"Redis is near its memory limit: nothing new is granted or may wait; what is ' ..
  'held is renewed, settled and given back","scope":"memory","afterMs":1000}'
