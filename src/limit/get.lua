-- silent: it only reads.
-- One limit. Args: name.
-- @include limit-reading
return limitRow(name, nowMs()) or ''
