-- Events that others said: more columns than ours, so that no reader takes them for a change of our own. `key` is
-- source and id together, empty for an event without an id: the same key within the window answers the first place.
-- Needs turn.lua, and the arguments windowMs and publishedMax.
local published = { at = P .. 'publishedAt', places = P .. 'published' }

-- subject, data, id and source are JSON text; time is RFC 3339, or empty for now. Answers `=<place>` for a repeat.
function published.append(type, subject, data, id, source, time, key)
  if key ~= '' then
    local first = call('ZSCORE', published.at, key)
    if first and tonumber(first) > turn.now - tonumber(windowMs) then
      local place = call('HGET', published.places, key)
      if place then return '=' .. place end
    end
  end
  emitRow(type, concat({ type, subject, data, id, source, time }, '\t'))
  local place = turn.epoch .. ':' .. int(turn.offset + turn.events)
  if key ~= '' then
    call('HSET', published.places, key, place)
    call('ZADD', published.at, int(turn.now), key)
  end
  return place
end

-- At most as many are forgotten as this script added.
function published.bound()
  local over = call('ZCARD', published.at) - tonumber(publishedMax)
  if over <= 0 then return end
  local oldest = call('ZPOPMIN', published.at, math.min(over, 1000))
  for i = 1, #oldest, 2 do call('HDEL', published.places, oldest[i]) end
end
