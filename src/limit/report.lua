#!lua flags=allow-oom
-- How calls went. An adaptive amount follows what the provider can take (row R13): a tenth less when it is slow (above 1.5
-- times the target) or fails (below 95 % success), a tenth more when it is fast (below half the target) and sure (above
-- 99 %), between min and max. Judged over all reports since the last judgement, at most once in everyMs and from enough of
-- them: a single slow call is noise. Args: caller, binding, name, ok, latencyMs, everyMs, samples.
-- @include limit-wait
if not speaks(caller, binding) then return refuse('SESSION_LOST') end
local item = limit.get(name)
if not item then return refuse('NOT_FOUND', '{"message":"no such limit; limit.define makes one"}') end
local spec = item.def.adaptive

local function judged(dim)
  local latency, success = item.latency / item.reports, 1 - item.failures / item.reports
  local amount = dim.amount
  if latency > 1.5 * spec.targetMs or success < 0.95 then amount = math.min(amount - 1, floor(amount * 9 / 10))
  elseif latency < 0.5 * spec.targetMs and success > 0.99 then amount = math.max(amount + 1, floor(amount * 11 / 10)) end
  return math.max(spec.min, math.min(spec.max, amount))
end

if ok == '1' and item.phase == 'probing' then limit.cleared(item) end
if spec then
  item.reportAt = item.reportAt or turn.now
  item.reports, item.latency = (item.reports or 0) + 1, (item.latency or 0) + tonumber(latencyMs)
  item.failures = (item.failures or 0) + (ok == '1' and 0 or 1)
  item.dirty = true
  if item.reports >= tonumber(samples) and turn.now - item.reportAt >= tonumber(everyMs) then
    local dim = item.dims[spec.dimension]
    local amount = judged(dim)
    if amount ~= dim.amount then
      dim.now, dim.amount, item.look, item.changed = amount, amount, true, true
    end
    item.reports, item.latency, item.failures, item.reportAt = 0, 0, 0, turn.now
  end
end
return turn.close({ limit.flush() })
