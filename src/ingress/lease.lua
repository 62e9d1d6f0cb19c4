-- silent: who appends is the daemons' own business; what could be missed meanwhile is told by `ingress.gap`.
-- Takes or keeps the one lease under which a daemon writes what the namespace's services PUBLISH. Keeping it tells the
-- place that the log has reached and sends a mark down the channel that all daemons listen on: a sign of life, and the
-- point from which a standby counts (ingress/tape.ts).
-- @include turn
local key = P .. 'ingress'
local lease = call('HMGET', key, 'daemon', 'fence', 'until', 'mark', 'count', 'heardAt')
local holder, mine = lease[1] or '', lease[1] == daemon and lease[2] == fence

if fence ~= '' and not mine then return turn.close({ 0, holder, 0, '', '', int(turn.now) }) end
if not mine and holder ~= '' and holder ~= daemon and tonumber(lease[3]) > turn.lease then
  call('PUBLISH', 'sb:ingress', namespaceName .. ' ?') -- a new standby: it needs a mark to count from
  return turn.close({ 0, holder, int(tonumber(lease[3]) - turn.lease), '', '', int(turn.now) })
end

local held = mine and fence or int(nextFence())
call('HSET', key, 'daemon', daemon, 'fence', held, 'until', int(turn.lease + tonumber(leaseMs)))
if mine then call('HSET', key, 'mark', mark, 'count', count, 'heardAt', int(math.min(tonumber(doneAt), turn.now)))
-- The first of all: from when it listens on, what is missed can be told, although nothing was appended yet.
elseif not lease[6] then call('HSET', key, 'heardAt', int(math.min(tonumber(doneAt), turn.now))) end
call('PUBLISH', 'sb:ingress', concat({ namespaceName, held, held .. '.' .. newMark, mine and mark or '', count }, ' '))
turn.touched = true -- the fence must be kept
return turn.close({ 1, held, lease[4] or '', lease[5] or '0', lease[6] and int(turn.now - lease[6]) or '', int(turn.now) })
