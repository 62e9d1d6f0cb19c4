-- silent: it only reads.
-- Names of sessions from `first` on, in their order. Args: first ('' for the beginning), count.
-- @include reading
return call('ZRANGE', P .. 'sessionNames', first == '' and '-' or '[' .. first, '+', 'BYLEX', 'LIMIT', 0, tonumber(count))
