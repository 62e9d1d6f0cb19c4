-- One caller is handed the key, all others are told who has it or what became of it. Repeated under its own attempt it
-- answers as the first did: the reply was lost, not the beginning. Args: caller, binding, key, fingerprint, attempt,
-- leaseMs, keepMs. Answers the word (or '!CODE …') and the record.
-- @include once
if not speaks(caller, binding) then return refuse('SESSION_LOST') end
local row = once.load(key)
if row and row.fingerprint ~= fingerprint then
  return turn.close({ '!MISMATCH {"message":"the key was begun with another fingerprint","attempts":' .. row.attempts .. '}' })
end
local word
if row and row.state == 'done' then word = 'done'
elseif row and row.state == 'inProgress' then
  word = 'inProgress'
  if row.attempt == attempt and row.session == caller then
    word = row.as
    call('ZADD', P .. 'onceDue', int(turn.lease + row.lease), key)
  end
else word = once.begin(key, row, caller, { fingerprint = fingerprint, attempt = attempt, leaseMs = leaseMs, keepMs = keepMs }) end
return turn.close({ word, onceRecord(key, turn.lease, turn.skew) })
