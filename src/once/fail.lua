#!lua flags=allow-oom
-- What was begun has failed, and its holder says what that means for the next one: `final` is an end like a result,
-- `retryable` had no effect and may be begun anew, `unknown` has to be found out. Args: caller, binding, key, fence,
-- outcome, fault (JSON, '' for none), told (the same, cut for the event). Answers '' or '!CODE …', and the record.
-- @include once-held
local STATES = { final = 'done', retryable = 'new', unknown = 'unknown' }
local row = once.load(key)
local refusal = nil
if not (row and row.ended == outcome .. ' ' .. fence) then
  refusal = once.notHeld(row, fence, caller, binding)
  if not refusal then
    call('HDEL', P .. 'once:' .. key, 'result', 'error')
    once.close(key, row, STATES[outcome], outcome, fault ~= '' and 'error', fault)
    local more = told ~= '' and ',"error":' .. told or ''
    if outcome == 'unknown' then tellOnce('once.unknown', key, row, ',"reason":"reported"' .. more)
    else tellOnce('once.failed', key, row, ',"outcome":"' .. outcome .. '"' .. more) end
  end
end
return turn.close({ refusal or '', not refusal and onceRecord(key, turn.lease, turn.skew) or '' })
