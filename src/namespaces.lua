-- silent: a namespace begins its own log when it is first written to.
-- Which namespaces are in use. Args: max; then names to be added where there is room, in one step, so that two daemons
-- cannot both take the last place. Answers all that are in use, the oldest first.
local call = redis.call
local time = call('TIME')
for i = batchAt, #ARGV do
  if not call('ZSCORE', KEYS[1], ARGV[i]) and call('ZCARD', KEYS[1]) < tonumber(max) then
    call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[i])
  end
end
return call('ZRANGE', KEYS[1], 0, -1)
