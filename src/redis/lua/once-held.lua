-- What the holder of a once key says of it: that it lives, or how it ended.
-- @include once
function once.stale(fence, row)
  return '!STALE_FENCE {"yours":' .. fence .. ',"current":' .. (row and row.fence or '0') .. '}'
end

-- nil if the caller holds the key under this fence; else why not.
function once.notHeld(row, fence, caller, binding)
  if not row then return '!NOT_FOUND' end
  if row.state == 'inProgress' and row.fence == fence and row.session == caller and session(caller).binding == binding then
    return nil
  end
  return once.stale(fence, row)
end

-- Its holder says how it ended. `how` is remembered beside the fence: the same word under it is answered as the first was.
-- The value is stored under `field`.
function once.close(key, row, state, how, field, value)
  call('HSET', onceKey(key), 'state', state, 'ended', how .. ' ' .. row.fence)
  if field then call('HSET', onceKey(key), field, value) end
  -- A key that somebody may begin again is fenced out at once; what is done keeps the fence it was done under.
  if state ~= 'done' then call('HSET', onceKey(key), 'fence', int(nextFence())) end
  call('HDEL', onceKey(key), 'attempt')
  keepOnce(key, row)
end
