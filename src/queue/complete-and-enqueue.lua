-- A result and the tasks that follow from it, in one step: a worker that dies between the two would otherwise lose the
-- rest of the job or do it twice. If one item is refused nothing is done. A completion already made under this fence
-- passes, so that the whole may be repeated after a lost reply.
-- @include done
-- @include put
-- @include claim
local at = done.read(batchAt)
at = puts.read(at)
local completions, clean, seen = {}, true, {}
for i, item in ipairs(done.items) do
  completions[i] = done.check(item)
  if seen[item.id] then completions[i] = '!CONFLICT {"message":"the request completes this task twice"}' end
  seen[item.id] = true
  if completions[i] and string.sub(completions[i], 1, 1) == '!' then clean = false end
end
clean = puts.check(tonumber(kindsMax)) and clean
if not clean then
  local withheld = '!CONFLICT {"message":"another item of the request was refused; nothing was done"}'
  for i = 1, #done.items do
    if not completions[i] or string.sub(completions[i], 1, 1) ~= '!' then completions[i] = withheld end
  end
  for i = 1, #puts.items do
    if not puts.results[i] or string.sub(puts.results[i], 1, 1) ~= '!' then puts.results[i] = withheld end
  end
  task.flush()
  -- 0: workers were not served, which does not say that there is nothing for them.
  return turn.close({ completions, puts.results, { 0, '', '', '' }, puts.pressure() })
end
for i, item in ipairs(done.items) do completions[i] = completions[i] or done.write(item) end
claims.read(at)
local results = puts.write(claims.direct)
local rows = claims.serve()
task.flush()
return turn.close({ completions, results, rows, puts.pressure() })
