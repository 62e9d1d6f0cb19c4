-- silent: it only reads.
-- One session and a page of what it holds. Args: id, cursor, limit (0: the session alone), bytes. Answers its row (or '' if it
-- is gone), the holdings and where to go on.
-- @include reading
-- @include holdings
local skew = skewMs()
local deadline = call('ZSCORE', P .. 'sessions', id)
local row = call('HMGET', P .. 'session:' .. id, 'agent', 'binding', 'openedAt', 'ended')
if not deadline or not row[1] or row[4] or tonumber(deadline) <= nowMs() - skew then return { '', {}, '' } end
local out, nextCursor = {}, ''
if limit ~= '0' then out, nextCursor = holdingsOf(id, cursor, tonumber(limit), skew, tonumber(bytes), 300 + 2 * (#id + #row[1])) end
if not out then return refuse('BAD_REQUEST', '{"message":"cursor is not one this op gave","path":"cursor"}') end
return { { row[1], row[2], row[3], string.format('%.0f', tonumber(deadline) + skew) }, out, nextCursor }
