-- SPDX-License-Identifier: Apache-2.0
-- A client of Truce in the Lua of Neovim, without the plug-in. It saves its buffer when another program wants to read the file.
--
--     nvim --headless --clean -n --cmd "let g:client = ['MOUNT', 'FILE', 'FOLDER']" -S client.lua
--
-- The client has unsaved text for MOUNT/FILE. After another program has changed the file, it writes the number of lines to
-- FILE.count. It ends when a new file appears in MOUNT/FOLDER.

local uv = vim.uv or vim.loop
local mount, file, folder = unpack(vim.g.client)
local longest_wait = 60000
local handlers, replies, notices, calls = {}, {}, {}, 0
local pipe = uv.new_pipe(false)
local ended, changed

local function say(...) io.stdout:write(table.concat({ ... }, ' '), '\n') io.stdout:flush() end

local function send(message)
  message.jsonrpc = '2.0'
  pipe:write(vim.json.encode(message) .. '\n')
end

-- Answers a request of the daemon at once, also while this client waits for a reply.
local function answer(message)
  local works, failure = pcall(handlers[message.method] or error, message.params)
  if works then
    send({ id = message.id, result = vim.empty_dict() })
  else
    send({ id = message.id, error = { code = 1, message = tostring(failure) } })
  end
end

local function take(line)
  local message = vim.json.decode(line)
  if message.method and message.id then
    answer(message)
  elseif message.method then
    changed = changed or message.method == 'presenter/didChange'
    table.insert(notices, message)
  else
    replies[message.id] = message
  end
end

-- Waits until `what` returns a value. Neovim goes on with other work during the wait.
local function wait_for(what, longest)
  local found
  vim.wait(longest, function() found = what() return found or ended end, 5)
  return found or error(ended and 'the daemon has hung up' or 'it took too long')
end

local function call(method, parameters)
  calls = calls + 1
  local id = calls
  send({ id = id, method = method, params = parameters })
  local reply = wait_for(function() return replies[id] end, longest_wait)
  replies[id] = nil
  return reply.result or error(method .. ': ' .. reply.error.message)
end

local function connect(socket)
  local connected, rest = false, ''
  pipe:connect(socket, function(failure) connected, ended = true, failure end)
  wait_for(function() return connected end, longest_wait)
  pipe:read_start(function(_, piece)
    if not piece then ended = true return end
    local lines = vim.split(rest .. piece, '\n', { plain = true })
    rest = table.remove(lines)
    -- Most functions of Neovim may not be called in this callback, so the lines are handled later.
    for _, line in ipairs(lines) do vim.schedule(function() take(line) end) end
  end)
  call('initialize', { client = { name = 'client.lua', version = '1' }, protocol = { min = 1, max = 1 } })
end

local function main()
  -- The command `truce socket` checks that the directory is a mount of Truce.
  local socket = vim.fn.system({ 'truce', 'socket', mount })
  assert(vim.v.shell_error == 0, socket)
  connect(vim.trim(socket))
  vim.cmd('edit ' .. vim.fn.fnameescape(mount .. '/' .. file))
  vim.api.nvim_buf_set_lines(0, 0, -1, true, { 'unsaved words of Neovim' })

  handlers['presenter/save'] = function(request)
    if not vim.bo.modified then return end
    if changed then error('others have written the file since') end
    vim.cmd('silent write!')
    say('saved for', request.cause.program)
  end
  local presenter = call('presenter/register', { path = file, messages = { 'save', 'didChange' } }).presenter
  call('events/subscribe', { path = folder })
  say('presenting', file)

  while true do
    local notice = wait_for(function() return table.remove(notices, 1) end, 2 ^ 31 - 1)
    local what = notice.params
    if notice.method == 'presenter/didChange' then
      say('changed by', what.cause.program)
      local access = call('access/begin', { presenter = presenter, intents = {
        { path = file, access = 'read', options = { 'withoutChanges' } },
        { path = file .. '.count', access = 'forReplacing' },
      } })
      vim.cmd('silent edit!')
      vim.fn.writefile({ tostring(vim.fn.line('$')) }, mount .. '/' .. access.intents[2].path)
      call('access/end', { access = access.access })
      say('counted the lines')
    elseif notice.method == 'events/event' and what.kind == 'appeared' then
      return say(what.path, 'appeared by', what.cause.program)
    end
  end
end

local works, failure = pcall(main)
if not works then io.stderr:write(tostring(failure), '\n') end
vim.cmd(works and 'qall!' or 'cquit')
