-- A record of the once ledger as it is shown, for writing scripts and for reading ones: it needs P and call only, and is
-- told the lease clock and its skew. Answers nil where nothing is remembered (any more), else { state, attempts, fence,
-- fingerprint, session, agent, when its lease ends, when it is forgotten, result, error }, '' for nothing.
local function onceRecord(key, lease, skew)
  local row = call('HMGET', P .. 'once:' .. key, 'state', 'attempts', 'fence', 'fingerprint', 'session', 'agent', 'result', 'error')
  if not row[1] then return nil end
  local ends = tonumber(call('ZSCORE', P .. 'onceDue', key) or 0)
  local at = string.format('%.0f', ends + skew)
  if row[1] ~= 'inProgress' then
    if ends <= lease then return nil end
    return { row[1], row[2], row[3], row[4], '', '', '', at, row[7] or '', row[8] or '' }
  end
  local deadline = call('ZSCORE', P .. 'sessions', row[5])
  -- The deadline rules: its holder is gone although no sweep has noticed yet.
  if ends <= lease or not deadline or tonumber(deadline) <= lease then
    return { 'unknown', row[2], row[3], row[4], '', '', '', '', '', '' }
  end
  return { row[1], row[2], row[3], row[4], row[5], row[6], at, '', '', '' }
end
