-- silent: it only reads.
-- One lock with its holders and waiters, at most `most` of each. Args: name, most.
-- @include lock-reading
return lockRow(name, tonumber(most), true)
