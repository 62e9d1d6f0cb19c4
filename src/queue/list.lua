-- A page of a state's set, at most `limit` rows looked at and about 2 MiB read, whatever the filter lets through. Args:
-- queue, set, kind, tenant (\0 for any), cursor, limit. Answers rows {id, header, run, its cursor} and where to go on.
-- @include reading
-- @include pages

-- The head with its members up to the payload: `"payload":` and the payload itself stand last.
local function headOf(id)
  local text = call('GETRANGE', P .. 'task:' .. id, 0, 1500)
  if text == '' then return nil end
  local bytes = string.match(text, '^' .. string.rep('%Z*%z', 12) .. '(%d+)%z')
  local keep = call('STRLEN', P .. 'task:' .. id) - tonumber(bytes) - 10
  if keep > #text then text = call('GETRANGE', P .. 'task:' .. id, 0, keep - 1) end
  return (string.gsub(string.sub(text, 1, keep), ',$', ''))
end

-- What a page does not show: result, progress, saved, history.
local function withoutBulk(run)
  if run[RESULT] then run[RESULT] = '' end
  if run[PROGRESS] then run[PROGRESS] = '' end
  if run[SAVED] then run[SAVED] = '' end
  if run[HISTORY] then run[HISTORY] = '' end
end

local word = set == 'ready' and 'waiting' or set
local rows = pageOf(P .. word .. ':' .. queue, cursor, tonumber(limit))
if not rows then return refuse('BAD_REQUEST', '{"message":"cursor is not one this op gave","path":"cursor"}') end
local out, nextCursor, bytes = {}, '', 0
local attempts = call('HGET', P .. 'queue:' .. queue, 'maxAttempts') or '3'
for i = 1, #rows, 2 do
  local id = set == 'scheduled' and string.sub(rows[i], 17) or rows[i]
  local header = headOf(id)
  if header then
    local ofKind, ofTenant = string.match(header, '^%Z*%z%Z*%z%Z*%z%Z*%z(%Z*)%z(%Z*)%z')
    if (kind == '\0' or kind == ofKind) and (tenant == '\0' or tenant == ofTenant) then
      local packed = call('GET', P .. 'run:' .. id)
      local run = flat(packed)
      if run ~= '' then withoutBulk(run) end
      out[#out + 1] = { id, header, run, rows[i + 1] .. ' ' .. rows[i] }
      bytes = bytes + #header + (packed and #packed or 0)
    end
  end
  if bytes > 2097152 or i + 1 == #rows then
    nextCursor = rows[i + 1] .. ' ' .. rows[i]
    if i + 1 == #rows and #rows < 2 * tonumber(limit) then nextCursor = '' end
    break
  end
end
return { out, nextCursor, attempts }
