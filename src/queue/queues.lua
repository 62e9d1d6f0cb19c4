-- Names of queues, a page at a time. Args: after (name, '' for the first), limit.
-- @include reading
return call('ZRANGE', P .. 'queues', after == '' and '-' or '(' .. after, '+', 'BYLEX', 'LIMIT', 0, limit)
