-- What time it is in Redis.
-- @include reading
return string.format('%.0f', nowMs())
