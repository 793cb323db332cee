-- SPDX-License-Identifier: Apache-2.0
-- What a test needs: a folder that counts as a mount because of an invented mount table, and a fake daemon. The third part is
-- a Neovim in a terminal that loads the plug-in.

local M = {}

local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
local repository = vim.fn.fnamemodify(here, ':h:h:h')
local bound = 10000

local function eventually(what, condition)
  local result
  local holds = vim.wait(bound, function()
    result = condition()
    return result
  end, 3)
  if not holds then error(('waited %d ms for %s'):format(bound, what), 2) end
  return result
end

M.eventually = eventually

function M.write(path, contents)
  local file = assert(io.open(path, 'wb'))
  file:write(contents)
  file:close()
end

function M.read(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local contents = file:read('*a')
  file:close()
  return contents
end

-- MARK: The daemon

local Daemon = {}
Daemon.__index = Daemon

function Daemon.start(socket)
  local self = setmetatable({ socket = socket, events = {}, messages = {}, seen = 0, last_id = 1000 }, Daemon)
  local rest = ''
  self.job = vim.fn.jobstart({ here .. '/../fake-daemon', 'serve', socket }, {
    on_stdout = function(_, lines)
      lines[1] = rest .. lines[1]
      rest = table.remove(lines)
      for _, line in ipairs(lines) do self:note(vim.json.decode(line)) end
    end,
    on_stderr = function(_, lines) self.trouble = (self.trouble or '') .. table.concat(lines, '\n') end,
  })
  assert(self.job > 0, 'the fake daemon cannot be started')
  eventually('the fake daemon', function() return self:count('ready') == 1 end)
  return self
end

function Daemon:note(event)
  self.events[#self.events + 1] = event
  if event.message then self.messages[#self.messages + 1] = event.message end
end

function Daemon:count(name)
  local count = 0
  for _, event in ipairs(self.events) do count = count + (event.event == name and 1 or 0) end
  return count
end

function Daemon:tell(command) vim.fn.chansend(self.job, vim.json.encode(command) .. '\n') end

function Daemon:send(message) self:tell({ send = message }) end

function Daemon:bytes(bytes) self:tell({ bytes = require('truce.text').base64(bytes) }) end

-- Waits for the next message with this method, except messages that an earlier call has returned.
function Daemon:next(method)
  return eventually('the message ' .. method, function()
    for index = 1, #self.messages do
      local message = self.messages[index]
      if message.method == method then return table.remove(self.messages, index) end
    end
    assert((self.trouble or '') == '', self.trouble)
  end)
end

function Daemon:has(method)
  for _, message in ipairs(self.messages) do
    if message.method == method then return true end
  end
  return false
end

-- Waits until a file is presented and the plug-in knows this. Returns the number of the presenter.
function Daemon:registered(relative)
  local message = self:next('presenter/register')
  local path = message.params.path
  assert(path == relative, ('%s is presented instead of %s'):format(path, relative))
  self.presenter = (self.presenter or 0) + 1
  self:settle(self.presenter)
  return self.presenter
end

local cause = { pid = 712, program = 'cat', user = 0, operation = 'read' }

local function parameters(presenter, more)
  return vim.tbl_extend('force', {
    presenter = presenter, path = 'notes.md', deadline = 5000, turn = 1, cause = cause,
  }, more or {})
end

-- Sends a request to the plug-in and returns the request's number.
function Daemon:ask(name, presenter, more)
  self.last_id = self.last_id + 1
  self:send({
    jsonrpc = '2.0', id = self.last_id, method = 'presenter/' .. name, params = parameters(presenter, more),
  })
  return self.last_id
end

function Daemon:answer(id)
  return eventually('the answer to request ' .. id, function()
    for _, message in ipairs(self.messages) do
      if message.id == id and not message.method then return message end
    end
  end)
end

-- Sends a request to the plug-in and waits for the answer. Returns true, or false and the reason of the refusal.
function Daemon:call(name, presenter, more)
  local message = self:answer(self:ask(name, presenter, more))
  if message.error then return false, message.error.message end
  assert(type(message.result) == 'table' and next(message.result) == nil, 'the result is no empty object')
  return true
end

function Daemon:notify(name, presenter, more)
  self.sequence = (self.sequence or 0) + 1
  local sent = parameters(presenter, more)
  sent.deadline, sent.sequence = nil, self.sequence
  self:send({ jsonrpc = '2.0', method = 'presenter/' .. name, params = sent })
end

-- Waits until the plug-in has handled all earlier messages. It handles messages in their order, so an answer to a request
-- without a meaning shows this.
function Daemon:settle(presenter)
  self:answer(self:ask('settle', presenter))
end

function Daemon:stop()
  vim.fn.chanclose(self.job, 'stdin')
  assert(vim.fn.jobwait({ self.job }, bound)[1] ~= -1, 'the fake daemon does not end')
end

-- MARK: The editor

local Editor = {}
Editor.__index = Editor

-- Starts an editor. `options` has the fields `headless`, `arguments`, `environment` and `settings` (commands that run before
-- the plug-in is loaded).
function Editor.start(stage, options)
  local address = stage.root .. '/editor'
  os.remove(address)
  local words = { vim.v.progpath, '--clean', '--listen', address }
  if options.headless then table.insert(words, 2, '--headless') end
  local settings = {
    'set runtimepath^=' .. vim.fn.fnameescape(repository .. '/Scripts/nvim'),
    ("let g:truce_mountinfo = '%s'"):format(stage.table),
  }
  for _, command in ipairs(vim.list_extend(settings, options.settings or {})) do
    vim.list_extend(words, { '--cmd', command })
  end
  vim.list_extend(words, options.arguments or { stage.file })
  local environment = vim.tbl_extend('force', {
    TERM = 'xterm', TRUCE_SOCKET = stage.socket, XDG_STATE_HOME = stage.root, XDG_DATA_HOME = stage.root,
    XDG_CONFIG_HOME = stage.root, XDG_CACHE_HOME = stage.root, NVIM = '',
  }, options.environment or {})
  local self = setmetatable({ screen = '' }, Editor)
  self.job = vim.fn.jobstart(words, {
    pty = not options.headless, width = 100, height = 24, env = environment,
    on_stdout = function(_, lines) self.screen = (self.screen .. table.concat(lines, '\n')):sub(-4000) end,
    on_exit = function() self.ended = true end,
  })
  assert(self.job > 0, 'Neovim cannot be started')
  eventually('Neovim', function()
    if self.ended then error('Neovim ended: ' .. self.screen) end
    local connects, channel = pcall(vim.fn.sockconnect, 'pipe', address, { rpc = true })
    self.channel = connects and channel > 0 and channel or nil
    return self.channel
  end)
  eventually('the start of Neovim', function() return self:lua('return vim.v.vim_did_enter') == 1 end)
  return self
end

function Editor:mode() return vim.fn.rpcrequest(self.channel, 'nvim_get_mode') end

function Editor:request(method, ...)
  if self:mode().blocking then
    error('Neovim waits for a key: ' .. self.screen:gsub('%c%[[%d;?]*%a', ' '):sub(-600), 2)
  end
  return vim.fn.rpcrequest(self.channel, method, ...)
end

function Editor:lua(code, ...) return self:request('nvim_exec_lua', code, { ... }) end

function Editor:command(command) return self:request('nvim_command', command) end

-- Types keys as a user does. Returns when Neovim has received the keys.
function Editor:type(keys)
  vim.fn.rpcrequest(self.channel, 'nvim_input', keys)
end

function Editor:text(buffer)
  return table.concat(self:request('nvim_buf_get_lines', buffer or 0, 0, -1, false), '\n')
end

function Editor:shows(expected, buffer)
  eventually(('the text %q'):format(expected), function() return self:text(buffer) == expected end)
end

-- Types a text into the buffer as a user does, and waits until the buffer contains the text.
function Editor:change(text)
  self:type('ggO' .. text .. '<Esc>')
  eventually('typed text', function()
    return not self:mode().blocking and self:mode().mode == 'n' and self:text():sub(1, #text) == text
  end)
end

function Editor:eventually(what, expression)
  return eventually(what, function() return self:lua('return ' .. expression) end)
end

function Editor:option(name, buffer)
  return self:lua('local buffer, name = ... return vim.bo[buffer][name]', buffer or 0, name)
end

function Editor:messages() return self:lua([[return vim.api.nvim_exec('messages', true)]]) end

function Editor:said(part)
  local appears = vim.wait(bound, function() return self:messages():find(part, 1, true) ~= nil end, 3)
  if not appears then error(('no message %q in %q'):format(part, self:messages()), 2) end
end

function Editor:stop()
  if self.ended then return end
  pcall(vim.fn.rpcnotify, self.channel, 'nvim_command', 'qall!')
  if vim.fn.jobwait({ self.job }, 2000)[1] == -1 then vim.fn.jobstop(self.job) end
  vim.fn.jobwait({ self.job }, bound)
end

-- MARK: The stage

local Stage = {}
Stage.__index = Stage

local function escaped(path)
  return (path:gsub('[ \\]', function(character) return ('\\%03o'):format(character:byte()) end))
end

function M.new()
  local root = vim.loop.fs_realpath(vim.fn.fnamemodify(vim.fn.tempname(), ':h')) .. '/stage'
  vim.fn.delete(root, 'rf')
  local self = setmetatable({ root = root, socket = root .. '/socket', table = root .. '/mountinfo' }, Stage)
  self.mount = root .. '/a mount'
  vim.fn.mkdir(self.mount .. '/deep', 'p')
  self.file = self.mount .. '/notes.md'
  M.write(self.file, 'one\ntwo\nthree\n')
  self:mounted(true)
  return self
end

-- Writes the invented mount table.
function Stage:mounted(is_mounted, id)
  local lines = { '20 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw' }
  if is_mounted then
    lines[2] = ('%d 20 0:50 / %s rw,nosuid master:2 - fuse.truce /source rw,user_id=%d'):format(
      id or 77, escaped(self.mount), vim.loop.getuid())
  end
  M.write(self.table, table.concat(lines, '\n') .. '\n')
end

function Stage:daemon()
  self.daemons = self.daemons or {}
  local daemon = Daemon.start(self.socket)
  table.insert(self.daemons, daemon)
  return daemon
end

function Stage:editor(options)
  self.editors = self.editors or {}
  local editor = Editor.start(self, options or {})
  table.insert(self.editors, editor)
  return editor
end

-- Starts a daemon and an editor that shows the document. Returns both and the number of the presenter.
function Stage:presented(options)
  local daemon = self:daemon()
  local editor = self:editor(options)
  return daemon, editor, daemon:registered('notes.md')
end

-- Checks that a test leaves no error of the plug-in behind in an editor.
function Stage:check()
  for _, editor in ipairs(self.editors or {}) do
    if not editor.ended then
      local messages = editor:messages()
      for _, trouble in ipairs({ 'Error executing', 'stack traceback', 'an error of the plug-in' }) do
        assert(not messages:find(trouble, 1, true), messages)
      end
    end
  end
end

function Stage:clear()
  for _, editor in ipairs(self.editors or {}) do editor:stop() end
  for _, daemon in ipairs(self.daemons or {}) do pcall(daemon.stop, daemon) end
  vim.fn.delete(self.root, 'rf')
end

return M
