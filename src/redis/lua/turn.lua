-- The frame of every script that changes something. It opens with one reading of the clock and of the namespace's
-- counters, and closes with one entry in the log for all events and one write of the counters: a change and its event
-- are one step, and a crash between them cannot exist.
--
-- Epoch: Redis may come back from a restart, a failover or a FLUSHALL with fewer writes than were acknowledged. Its
-- replication id then differs from the stored one, or nothing is stored, or a daemon has seen more of this epoch than
-- there is. Each begins a new epoch, so that an offset which is handed out again can never be taken for the old one.
--
-- Fence: max(stored + 1, TIME in microseconds, highest the daemon has seen + 1). The counter may be lost with the store
-- and the clock may go back; both at once would be needed for a fence to fall.
--
-- Grace: what a new epoch may have lost includes who held which lock. Unless everything was written in order (the stop mark
-- of a daemon, after the last fence there was), locks are granted to newcomers only when the longest lived session would
-- have run out; until then holders reclaim. Where the store knows no session any more the daemons do, each its own: the
-- one that comes first begins the grace, every other one makes it as long as its sessions need.
--
-- Lease clock: TIME minus skew. When TIME is 5 s ahead of the last seen (an outage, a stopped machine, a jump) or behind
-- it, the difference goes into skew: leases stand still instead of all running out at once.
local P = string.sub(KEYS[1], 1, -5)
local call, fmt, floor, concat = redis.call, string.format, math.floor, table.concat
-- tostring and .. print 1795950000000001 as 1.79595e+15. %d is exact and several times as fast, where a long has 64 bits.
local whole = fmt('%d', 9007199254740992) == '9007199254740992' and '%d' or '%.0f'
local function int(number) return fmt(whole, number) end
local json = cjson.encode

local function refuse(code, details) return redis.error_reply(code .. ' ' .. (details or 'refused')) end

-- RFC 3339 of milliseconds, without a date library in the sandbox (days to civil date, Gregorian).
local function iso(ms)
  local days, rest = floor(ms / 86400000), ms % 86400000
  local z = days + 719468
  local era = floor(z / 146097)
  local doe = z - era * 146097
  local yoe = floor((doe - floor(doe / 1460) + floor(doe / 36524) - floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + floor(yoe / 4) - floor(yoe / 100))
  local mp = floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return fmt('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, doy - floor((153 * mp + 2) / 5) + 1,
    floor(rest / 3600000), floor(rest / 60000) % 60, floor(rest / 1000) % 60, rest % 1000)
end

local turn = { events = 0 }
local rows, types = {}, {}

-- One event, as the row that the log keeps: type, subject and data, the latter two as JSON text, parted by tabs.
local function emitRow(type, row)
  turn.events = turn.events + 1
  rows[turn.events] = row
  types[type] = true
end
local function emit(type, subject, data) emitRow(type, type .. '\t' .. subject .. '\t' .. data) end

local function base36(number)
  local digits, text = '0123456789abcdefghijklmnopqrstuvwxyz', ''
  repeat
    local digit = number % 36
    text = string.sub(digits, digit + 1, digit + 1) .. text
    number = floor(number / 36)
  until number == 0
  return text
end

local function beginEpoch(reason, replid)
  local before = turn.epoch
  -- Written by turn.close: a script that refuses after this must leave no trace of it.
  turn.epoch, turn.replid, turn.newEpoch, turn.first = base36(turn.nowUs), replid, true, turn.offset + 1
  turn.unclean = reason ~= 'new' and not turn.stopped
  emit('epoch.began', json(turn.epoch), '{"epoch":' .. json(turn.epoch) .. ',"reason":"' .. reason .. '"' ..
    (before and ',"previous":' .. json(before) or '') .. '}')
end

do
  local clock = call('TIME')
  turn.nowUs = clock[1] * 1000000 + clock[2]
  turn.now = floor(turn.nowUs / 1000)
  turn.nowText = int(turn.now)
  local stored = call('HMGET', KEYS[1], 'offset', 'epoch', 'replid', 'fence', 'skew', 'seen', 'tail', 'bytes', 'second',
    'clean', 'graceUntil')
  local replid = string.match(call('INFO', 'replication'), 'master_replid:(%x+)') or ''
  turn.offset, turn.epoch, turn.replid = tonumber(stored[1] or 0), stored[2], stored[3]
  turn.last = math.max(tonumber(stored[4] or 0), tonumber(fenceFloor))
  turn.known = turn.last
  turn.skew, turn.tail = tonumber(stored[5] or 0), tonumber(stored[7] or 0)
  turn.bytes, turn.second = tonumber(stored[8] or 0), tonumber(stored[9] or 0)
  -- A fence given after the stop mark makes it void: another daemon went on.
  turn.stopped, turn.graceUntil = stored[10] and stored[10] == stored[4], tonumber(stored[11] or 0)
  local seenEpoch, seenOffset = string.match(seenPosition, '^(%w+):(%d+)$')
  if not turn.epoch then beginEpoch(seenEpoch and 'reset' or 'new', replid)
  elseif turn.replid ~= replid then beginEpoch('restarted', replid)
  elseif seenEpoch == turn.epoch and tonumber(seenOffset) > turn.offset then beginEpoch('rewound', replid) end
  local ahead = stored[6] and turn.now - tonumber(stored[6]) or 0
  if ahead > 5000 or ahead < 0 then
    turn.skew = turn.skew + ahead
    if math.abs(ahead) >= 1000 then emit('clock.jumped', '"clock"', '{"byMs":' .. int(ahead) .. '}') end
  end
  turn.sinceSeen = stored[6] and ahead or 5000
  turn.lease = turn.now - turn.skew
  if turn.unclean then
    local longest = tonumber(ttlLongest)
    for _, id in ipairs(call('ZREVRANGE', P .. 'sessions', 0, 999)) do
      longest = math.max(longest, tonumber(call('HGET', P .. 'session:' .. id, 'ttlMs') or 0))
    end
    turn.graceUntil, turn.graced = turn.lease + longest, true
  elseif seenEpoch and seenEpoch ~= turn.epoch and not turn.newEpoch and turn.graceUntil > turn.lease then
    -- Begun by another daemon, which knew nothing of the sessions of this one.
    turn.graceUntil, turn.graced = math.max(turn.graceUntil, turn.lease + tonumber(ttlLongest)), true
  end
end

local function nextFence()
  turn.last = math.max(turn.last + 1, turn.nowUs)
  return turn.last
end

-- Writes the entry and the counters; answers what the daemon remembers as seen, then the script's own reply.
function turn.close(reply)
  local count = turn.events
  if count == 0 and turn.sinceSeen < 250 and not turn.touched and not turn.graced then
    -- A fence given without an event is stored all the same: behind a clock that goes back comes no lower one.
    if turn.last > turn.known then call('HSET', KEYS[1], 'fence', int(turn.last)) end
    return { int(turn.last), turn.epoch .. ':' .. int(turn.offset), reply }
  end
  if turn.graced then
    call('HSET', KEYS[1], 'graceUntil', int(turn.graceUntil))
    call('ZADD', P .. 'lockDue', int(turn.graceUntil), 'g')
  end
  if count > 0 then
    local second = floor(turn.now / 1000)
    if second > turn.second then
      call('ZADD', P .. 'logIndex', int(turn.offset), int(turn.offset) .. ':' .. int(turn.now) .. ':' .. int(turn.bytes))
      turn.second = second
    end
    if turn.newEpoch then
      call('ZADD', P .. 'epochs', int(turn.first), turn.epoch)
      call('HDEL', KEYS[1], 'clean')
    end
    turn.offset = turn.offset + count
    local names = {}
    for name in pairs(types) do names[#names + 1] = name end
    local body = concat(rows, '\n')
    call('XADD', P .. 'log', int(turn.offset) .. '-0', 'by', daemon, 'epoch', turn.epoch, 'at', int(turn.now),
      'n', count, 'types', concat(names, ' '), 'events', body)
    turn.bytes = turn.bytes + #body + 120
    -- A burst between two sweeps must not outgrow the bound by more than a sixteenth.
    local max = tonumber(eventsMax)
    if turn.offset - turn.tail > max + max / 16 then
      -- No more than that in one script: after the bound was lowered the sweep does the rest in steps.
      turn.tail = math.min(turn.offset - max, turn.tail + floor(max / 8) + count + 1000)
      call('XTRIM', P .. 'log', 'MINID', int(turn.tail + 1))
    end
  end
  call('HSET', KEYS[1], 'format', 2, 'offset', int(turn.offset), 'epoch', turn.epoch, 'replid', turn.replid,
    'fence', int(turn.last), 'skew', int(turn.skew), 'seen', int(turn.now), 'tail', int(turn.tail),
    'bytes', int(turn.bytes), 'second', turn.second)
  return { int(turn.last), turn.epoch .. ':' .. int(turn.offset), reply }
end
