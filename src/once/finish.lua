#!lua flags=allow-oom
-- The result of what was begun, kept for whoever asks again. A holder that was frozen while its lease ran out is fenced
-- out, given on already or not: nobody can tell any more what happened meanwhile. Args: caller, binding, key, fence, result.
-- Answers '' or '!CODE …', and the record.
-- @include once-held
local row = once.load(key)
local refusal = nil
if not (row and row.ended == 'finished ' .. fence) then
  refusal = once.notHeld(row, fence, caller, binding)
  if not refusal then
    call('HDEL', P .. 'once:' .. key, 'error')
    once.close(key, row, 'done', 'finished', 'result', result)
    tellOnce('once.finished', key, row)
  end
end
return turn.close({ refusal or '', not refusal and onceRecord(key, turn.lease, turn.skew) or '' })
