-- silent: it only reads.
-- Whether Redis writes an append-only file.
return string.match(redis.call('INFO', 'persistence'), 'aof_enabled:(%d)') or '0'
