-- silent: it only reads.
-- The epoch and the time, for a ping without a session.
-- @include reading
return { string.format('%.0f', nowMs()), call('HGET', KEYS[1], 'epoch') or '' }
