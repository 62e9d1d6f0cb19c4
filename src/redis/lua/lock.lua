-- Locks as they are stored. One mechanism for mutex, read/write lock, semaphore and paths: a request holds, or waits for,
-- a class and a weight on some nodes, all of them in one step. A node is a lock by its name; of a path lock also every
-- directory above it. Classes: s shared, x exclusive, p permits of a semaphore; on the directories above a path lock r
-- (something below is shared) and w (something below is exclusive), and u for a request that is both s and w. So a lock on a directory meets one on a file in it at
-- the directory's own node, and no tree is ever searched.
--   lock:<node>       hash: definition, what is held by class, what waits, the last fence. Read once and written once a
--                     script. Kept 60 s after its last use for its fence alone.
--   grant:<grant>     cmsgpack map: who, for what, in which state. An ended one is remembered for 60 s.
--   lockHolds:<node>  grants by fence; lockBelow:<node> those of path locks below it.
-- Names hold no control characters, so \0 parts them.
-- @include session
-- @include bands
local lock = { rememberMs = 60000 }
do
  local fields = { 'capacity', 'lockDelayMs', 'maxHoldMs', 's', 'x', 'p', 'u', 'r', 'w', 'queued', 'waits', 'notBefore',
    'below', 'fence' }
  local nodes, grants = {}, {}
  -- Written by lock.flush, many in one command: grants that go on, grants that are over, and `held:` by session (a score,
  -- or false for what goes).
  local kept, over, held = {}, {}, {}

  -- What is in use for itself, and what only for something below it.
  local function listed(node)
    return node.capacity + node.lockDelayMs + node.maxHoldMs + node.s + node.x + node.p + node.u + node.waits + node.notBefore > 0
  end
  local function used(node) return listed(node) or node.r + node.w + node.queued + node.below > 0 end

  function lock.node(name)
    local node = nodes[name]
    if node then return node end
    local was = {}
    -- All fields in the constructor: a table that grows field by field is laid out anew five times.
    node = { name = name, path = string.sub(name, 1, 5) == 'path:', was = was, listed = false, used = false, first = false,
      looked = false, capacity = 0, lockDelayMs = 0, maxHoldMs = 0, s = 0, x = 0, p = 0, u = 0, r = 0, w = 0, queued = 0,
      waits = 0, notBefore = 0, below = 0, fence = 0 }
    -- Of its fields a lock has two or three at a time.
    local row = call('HGETALL', P .. 'lock:' .. name)
    if #row > 0 then
      for i = 1, #row, 2 do
        local value = tonumber(row[i + 1])
        node[row[i]], was[row[i]] = value, value
      end
      node.listed, node.used = listed(node), used(node)
    end
    nodes[name] = node
    return node
  end

  -- The directories above a path, the root of all paths first. `path:` is that root, `path:/` the one of absolute paths.
  function lock.above(name)
    local path, above = string.sub(name, 6), {}
    if path == '' then return above end
    above[1] = 'path:'
    if string.sub(path, 1, 1) == '/' and path ~= '/' then above[2] = 'path:/' end
    local at = string.find(path, '/', 2, true)
    while at do
      above[#above + 1] = 'path:' .. string.sub(path, 1, at - 1)
      at = string.find(path, '/', at + 1, true)
    end
    return above
  end

  local function write(node)
    local key, was, sets, dels = P .. 'lock:' .. node.name, node.was, {}, {}
    for _, field in ipairs(fields) do
      if node[field] ~= (was[field] or 0) then
        if node[field] == 0 then dels[#dels + 1] = field
        else sets[#sets + 1] = field; sets[#sets + 1] = int(node[field]) end
      end
    end
    if #sets > 0 then call('HSET', key, unpack(sets)) end
    if #dels > 0 then call('HDEL', key, unpack(dels)) end
    if used(node) and not node.used and was.fence then call('PERSIST', key) end
  end

  local function forgetNode(node)
    local key = P .. 'lock:' .. node.name
    if node.fence == 0 then
      call('DEL', key)
      return
    end
    write(node)
    call('PEXPIRE', key, lock.rememberMs)
  end

  local function each(list, command, key)
    if #list > 0 then call(command, key, unpack(list)) end
  end

  -- What sessions hold, written. Must run before `held:` is read.
  function lock.flushHeld()
    for id, members in pairs(held) do
      local adds, rems = {}, {}
      for member, score in pairs(members) do
        if score then
          adds[#adds + 1] = score
          adds[#adds + 1] = member
        else rems[#rems + 1] = member end
      end
      each(adds, 'ZADD', P .. 'held:' .. id)
      each(rems, 'ZREM', P .. 'held:' .. id)
    end
    held = {}
  end

  local function flushGrants()
    local list = {}
    for id, grant in pairs(kept) do
      list[#list + 1] = P .. 'grant:' .. id
      list[#list + 1] = cmsgpack.pack(grant)
    end
    if #list > 0 then call('MSET', unpack(list)) end
    for id, left in pairs(over) do call('SET', P .. 'grant:' .. id, cmsgpack.pack(left), 'PX', lock.rememberMs) end
    kept, over = {}, {}
  end

  local function flushNodes()
    local adds, rems = {}, {}
    for name, node in pairs(nodes) do
      if node.notBefore <= turn.lease then node.notBefore = 0 end
      if node.below <= turn.lease then node.below = 0 end
      local isListed = listed(node)
      if used(node) then write(node) elseif node.used or node.fence ~= (node.was.fence or 0) then forgetNode(node) end
      if isListed and not node.listed then
        adds[#adds + 1] = 0
        adds[#adds + 1] = name
      end
      if node.listed and not isListed then rems[#rems + 1] = name end
    end
    each(adds, 'ZADD', P .. 'locks')
    each(rems, 'ZREM', P .. 'locks')
    nodes = {}
  end

  -- Must run before turn.close.
  function lock.flush()
    flushNodes()
    flushGrants()
    lock.flushHeld()
  end

  -- Reads many grants with one command.
  function lock.loadAll(ids)
    local names = {}
    local unread = {}
    for _, id in ipairs(ids) do
      if grants[id] == nil then
        unread[#unread + 1], names[#names + 1] = id, P .. 'grant:' .. id
      end
    end
    for i, packed in ipairs(#names > 0 and call('MGET', unpack(names)) or {}) do
      grants[unread[i]] = packed and cmsgpack.unpack(packed)
    end
  end

  function lock.load(id)
    local grant = grants[id]
    if grant == nil then
      local packed = call('GET', P .. 'grant:' .. id)
      grant = packed and cmsgpack.unpack(packed)
      grants[id] = grant
    end
    return grant
  end

  function lock.save(id, grant) grants[id], kept[id] = grant, grant end

  -- `score` false: the session has it no longer.
  function lock.holding(sessionId, id, score)
    local members = held[sessionId]
    if not members then
      members = {}
      held[sessionId] = members
    end
    members['l' .. id] = score
  end

  -- An ended grant leaves this behind: who asks again hears how it ended, and under which fence it was.
  function lock.remember(id, grant, state)
    local left = { state = state, session = grant.session, fence = grant.fence, node = grant.rows[1][2] }
    grants[id], kept[id], over[id] = left, nil, left
    lock.holding(grant.session, id, false)
  end

  -- When it ends by itself: its own lease or its longest hold, whichever comes first (lease clock); nil if neither.
  function lock.ends(id)
    local at = call('ZMSCORE', P .. 'lockDue', 'e' .. id, 'h' .. id)
    local soonest = math.min(tonumber(at[1] or 1e15), tonumber(at[2] or 1e15))
    return soonest < 1e15 and soonest or nil
  end

  -- How a row was asked for, in words: `"mode":"shared"` or `"permits":2`.
  function lock.asked(row)
    if row[3] == 'p' or row[3] == 'd' and lock.node(row[2]).capacity > 0 then return '"permits":' .. int(row[4]) end
    return row[3] == 's' and '"mode":"shared"' or '"mode":"exclusive"'
  end

  -- Names of sessions, agents and locks come back many times in a script.
  local texts = {}
  local function jsonOf(text)
    local known = texts[text]
    if not known then known = json(text); texts[text] = known end
    return known
  end

  -- One event for each lock of a grant. The first names them all; were that so of each, events would grow with the square of
  -- the locks: the others name the first eight, by which all of a grant can be told from one, and how many more there are.
  local namedMax = 8
  function lock.tell(type, id, grant, more, shows)
    local list, all, some = {}, '', ''
    for i, row in ipairs(grant.rows) do list[i] = jsonOf(row[1]) end
    if #list > 1 then all = ',"locks":[' .. concat(list, ',') .. ']' end
    if #list > namedMax then
      some = ',"locks":[' .. concat(list, ',', 1, namedMax) .. '],"locksMore":' .. int(#list - namedMax)
    else some = all end
    local who = ',"grant":' .. json(id) .. ',"session":' .. jsonOf(grant.session) .. ',"agent":' .. jsonOf(grant.agent) ..
      (grant.owner ~= '' and ',"owner":' .. json(grant.owner) or '')
    for i, row in ipairs(grant.rows) do
      emit(type, list[i], '{"lock":' .. list[i] .. (i == 1 and all or some) .. who .. (shows and ',' .. lock.asked(row) or '') .. more .. '}')
    end
  end
end
