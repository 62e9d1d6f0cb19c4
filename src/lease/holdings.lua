-- One session and a page of what it holds. Args: id, cursor, limit. Answers its row (or '' if it is gone), the holdings
-- and where to go on.
-- @include reading
-- @include holdings
local deadline = call('ZSCORE', P .. 'sessions', id)
local row = call('HMGET', P .. 'session:' .. id, 'agent', 'binding', 'openedAt', 'ended')
if not deadline or not row[1] or tonumber(deadline) <= leaseMs() then return { '', {}, '' } end
local skew = tonumber(call('HGET', KEYS[1], 'skew') or 0)
local out, nextCursor = holdingsOf(id, cursor, tonumber(limit))
if not out then return refuse('BAD_REQUEST', '{"message":"cursor is not one this op gave"}') end
return { { row[1], row[2], row[3], string.format('%.0f', tonumber(deadline) + skew) }, out, nextCursor }
