-- silent: it only reads.
-- One record, or nothing. Args: key.
-- @include reading
-- @include once-record
local skew = skewMs()
return onceRecord(key, nowMs() - skew, skew) or ''
