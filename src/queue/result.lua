-- The outcome of a task, without its payload. Args: id. Answers state, result, error.
-- @include reading
if call('EXISTS', P .. 'task:' .. id) == 0 then return refuse('NOT_FOUND') end
local packed = call('GET', P .. 'run:' .. id)
if not packed then return { 'ready', '', '' } end
local run = cmsgpack.unpack(packed)
return { run[STATE], run[RESULT] or '', run[FAULT] or '' }
