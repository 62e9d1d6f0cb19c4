-- silent: it only reads.
-- Names of queues with admission, in their order. Args: after, limit.
-- @include reading
return call('ZRANGE', P .. 'admissions', after == '' and '-' or '(' .. after, '+', 'BYLEX', 'LIMIT', 0, tonumber(limit))
