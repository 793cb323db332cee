-- SPDX-License-Identifier: Apache-2.0
-- Which buffers are presented, and the connection to the daemon: how it is found, lost and found again.

local stages = require('stage')
local eventually = stages.eventually

local all_messages = {
  'accommodateDeletion', 'didChange', 'didMove', 'reacquire', 'relinquishToReader', 'relinquishToWriter',
  'save',
}

local function edit(editor, path) editor:command('edit ' .. vim.fn.fnameescape(path)) end

local function registers(stage)
  local daemon = stage:daemon()
  local editor = stage:editor()
  local hello = daemon:next('initialize').params
  assert(hello.client.name == 'nvim' and vim.deep_equal(hello.protocol, { min = 1, max = 1 }))
  local message = daemon:next('presenter/register').params
  table.sort(message.messages)
  assert(message.path == 'notes.md' and not message.pathBytes)
  assert(vim.deep_equal(message.messages, all_messages))
  editor:eventually('the answer', [[require('truce').status() == 'truce']])
  assert(daemon:count('opened') == 1)
  -- Three kinds of buffers are not presented: of files outside the mount, without a name, and without a file.
  edit(editor, stage.root .. '/elsewhere')
  editor:command('write')
  editor:command('enew | edit ' .. vim.fn.fnameescape(stage.mount) .. ' | help truce')
  edit(editor, stage.mount .. '/deep/b')
  assert(editor:lua([[return require('truce').status()]]) == '')
  daemon:settle(1)
  assert(not daemon:has('presenter/register'), 'presented too early')
  -- A new file exists, and is presented, from its first write on.
  editor:command('write')
  assert(daemon:next('presenter/register').params.path == 'deep/b')
  assert(daemon:count('opened') == 1, 'more than one connection')
end

-- Checks that the list of tags that comes with the help is the list that Neovim itself makes.
local function help(stage)
  local from = vim.api.nvim_get_runtime_file('doc/truce.txt', false)[1]
  vim.fn.mkdir(stage.root .. '/doc')
  stages.write(stage.root .. '/doc/truce.txt', stages.read(from))
  vim.cmd('helptags ' .. vim.fn.fnameescape(stage.root .. '/doc'))
  local made = stages.read(stage.root .. '/doc/tags')
  local kept = stages.read(vim.fn.fnamemodify(from, ':h') .. '/tags')
  assert(made == kept, 'run :helptags for the doc folder of the plug-in')
end

local function names(stage)
  assert(vim.loop.fs_symlink(stage.file, stage.root .. '/link.md'))
  stages.write(stage.mount .. '/deep/b\255', 'x\n')
  stages.write(stage.mount .. '/€ $x%.md', 'x\n')
  local daemon = stage:daemon()
  local editor = stage:editor({ arguments = { stage.root .. '/link.md' } })
  assert(daemon:next('presenter/register').params.path == 'notes.md')
  editor:lua([[vim.fn.bufload(vim.fn.bufadd(...))]], stage.mount .. '/€ $x%.md')
  assert(daemon:next('presenter/register').params.path == '€ $x%.md')
  local pattern = stage.mount:gsub(' ', '\\ ') .. '/deep/b*'
  editor:lua([[vim.cmd('edit ' .. vim.fn.fnameescape(vim.fn.glob(...)))]], pattern)
  local bytes = daemon:next('presenter/register').params
  assert(bytes.pathBytes == require('truce.text').base64('deep/b\255') and bytes.path == nil)
end

local function comes_and_goes(stage)
  local daemon, editor, presenter = stage:presented()
  edit(editor, stage.mount .. '/other.md')
  editor:command('write')
  local other = daemon:registered('other.md')
  editor:command('bwipeout 1')
  assert(daemon:next('presenter/remove').params.presenter == presenter)
  local copy = stage.mount .. '/copy.md'
  editor:command('saveas ' .. vim.fn.fnameescape(copy))
  assert(daemon:next('presenter/remove').params.presenter == other)
  local third = daemon:registered('copy.md')
  -- The write makes a copy. The buffer's own file stays the same.
  editor:command('write ' .. vim.fn.fnameescape(stage.mount .. '/third.md'))
  editor:command('file ' .. vim.fn.fnameescape(stage.mount .. '/name.md'))
  assert(daemon:next('presenter/remove').params.presenter == third)
  assert(not daemon:has('presenter/register'))
  local function closed() return daemon:count('closed') == daemon:count('opened') end
  eventually('the end of the connection', closed)
  editor:command('write')
  daemon:registered('name.md')
  assert(not closed())
  editor:type(':qa!<CR>')
  eventually('the end of Neovim', function() return editor.ended and closed() end)
end

local function many(stage)
  local wanted = {}
  for number = 1, 100 do
    stages.write(('%s/%d'):format(stage.mount, number), 'x\n')
    wanted[#wanted + 1] = ('%s/%d'):format(stage.mount, number)
  end
  local daemon = stage:daemon()
  daemon:tell({ silent = true })
  local editor = stage:editor()
  daemon:next('initialize')
  daemon:tell({ ['hang up'] = true })
  daemon:tell({ silent = false })
  editor:lua('for _, name in ipairs(...) do vim.fn.bufload(vim.fn.bufadd(name)) end', wanted)
  eventually('all presenters', function()
    local count = 0
    for _, message in ipairs(daemon.messages) do
      count = count + (message.method == 'presenter/register' and 1 or 0)
    end
    return count == 101
  end)
  editor:eventually('the last answer', [[(function()
    for _, document in pairs(require('truce.presenters').documents()) do
      if not document.presenter then return false end
    end
    return true
  end)()]])
end

local function refused(stage)
  local daemon = stage:daemon()
  daemon:tell({ refuse = -32005 })
  daemon:tell({ refuse = -32005 })
  local editor = stage:editor()
  editor:said('notes.md is not presented: refused as told')
  assert(editor:lua([[return require('truce').status()]]) == 'truce:away')
  editor:command('bdelete')
  eventually('the end of the connection', function() return daemon:count('closed') == 1 end)
end

-- MARK: The daemon comes and goes

local function restarts(stage)
  local daemon, editor = stage:presented()
  local other = stage.mount .. '/other.md'
  stages.write(other, 'other\n')
  edit(editor, other)
  daemon:registered('other.md')
  editor:change('mine')
  daemon:stop()
  editor:eventually('the loss', [[require('truce').status() == 'truce:away']])
  stages.write(stage.file, 'changed meanwhile\n')
  stages.write(other, 'theirs\n')
  local again = stage:daemon()
  local presented = {}
  for index = 1, 2 do presented[index] = again:next('presenter/register').params.path end
  table.sort(presented)
  assert(vim.deep_equal(presented, { 'notes.md', 'other.md' }))
  editor:shows('changed meanwhile', 1)
  editor:eventually('the conflict', [[vim.b.truce_state == 'conflict']])
  editor:shows('mine\nother')
  assert(stages.read(other) == 'theirs\n')
  assert(editor:lua('return #vim.api.nvim_list_wins()') == 1)
end

-- While the daemon is gone, Neovim looks for the buffer's file and finds nothing.
local function out_of_sight(is_dirty)
  return function(stage)
    local daemon, editor = stage:presented()
    if is_dirty then editor:change('mine') end
    daemon:tell({ ['hang up'] = true })
    local hidden = stage.root .. '/hidden'
    assert(vim.loop.fs_rename(stage.file, hidden))
    editor:eventually('the loss', [[require('truce').status() ~= 'truce']])
    editor:command('checktime')
    editor:eventually('what Neovim finds', [[vim.b.truce_state == 'deleted']])
    assert(vim.loop.fs_rename(hidden, stage.file))
    local presenter = daemon:registered('notes.md')
    editor:eventually('the file', 'vim.b.truce_state == nil')
    if not is_dirty then editor:change('mine') end
    local saved, why = daemon:call('save', presenter)
    assert(saved, why)
    assert(stages.read(stage.file) == 'mine\none\ntwo\nthree\n')
  end
end

local function starts_late(stage)
  local editor = stage:editor()
  editor:said('truce: no daemon: there is no socket')
  assert(editor:lua([[return require('truce').status()]]) == 'truce:away')
  editor:change('typing goes on')
  editor:command('write')
  local daemon = stage:daemon()
  daemon:registered('notes.md')
  local _, count = editor:messages():gsub('no daemon', '')
  assert(count == 1, 'said more than once')
end

local function nobody_needs_it(stage)
  local daemon, editor = stage:presented()
  daemon:stop()
  editor:eventually('the loss', [[require('truce').status() == 'truce:away']])
  editor:command('bwipeout!')
  editor:eventually('the end of all tries', [[(function()
    for _, link in pairs(require('truce.presenters').connections()) do
      if link.state ~= 'idle' or link.timer then return false end
    end
    return true
  end)()]])
end

local function unmounted(stage)
  local daemon, editor = stage:presented()
  stage:mounted(false)
  daemon:tell({ ['hang up'] = true })
  editor:eventually('what is the matter', [[vim.tbl_filter(function(link)
    return link.trouble == 'nothing is mounted any more'
  end, vim.tbl_values(require('truce.presenters').connections()))[1] ~= nil]])
  assert(daemon:count('opened') == 1, 'it was tried without a mount')
  stage:mounted(true, 78)
  daemon:registered('notes.md')
end

local function nonsense(stage)
  local daemon, editor, presenter = stage:presented()
  daemon:bytes('{"jsonrpc": nonsense\n')
  eventually('the end of the connection', function() return daemon:count('closed') == 1 end)
  presenter = daemon:registered('notes.md')
  editor:change('mine')
  assert(daemon:call('save', presenter))
end

local function pieces(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  local function save(id)
    return vim.json.encode({ jsonrpc = '2.0', id = id, method = 'presenter/save', params = {
      presenter = presenter, path = 'notes.md', deadline = 5000, turn = 1,
      cause = { pid = 3, program = 'k€tze', user = 0, operation = 'read' },
    } }) .. '\n'
  end
  local whole = save(1) .. save(2) .. save(3)
  for position = 1, #whole do daemon:bytes(whole:sub(position, position)) end
  for id = 1, 3 do assert(daemon:answer(id).result) end
  daemon:bytes(save(4) .. save(5))
  for id = 4, 5 do assert(daemon:answer(id).result) end
  editor:said('k€tze (3) asked to read notes.md: saved')
  -- The request has a number that must not be rounded.
  daemon:bytes((save(123456):gsub('123456', '9007199254740991')))
  assert(daemon:answer(9007199254740991).result)
end

-- MARK: Finding the socket

local function asks_the_command(stage)
  local daemon = stage:daemon()
  local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
  local editor = stage:editor({
    environment = { TRUCE_SOCKET = '' },
    settings = {
      ("let g:truce_command = ['%s/../fake-daemon', '--socket', '%s']"):format(here, stage.socket),
    },
  })
  daemon:registered('notes.md')
  -- A new mount at the same path has a socket of its own.
  stage.socket = stage.root .. '/another'
  local another = stage:daemon()
  stage:mounted(true, 78)
  editor:lua([[
    local words, socket = ...
    words[3] = socket
    vim.g.truce_command = words
  ]], { here .. '/../fake-daemon', '--socket' }, stage.socket)
  daemon:stop()
  another:registered('notes.md')
end

local function has_no_command(stage)
  local editor = stage:editor({
    environment = { TRUCE_SOCKET = '' },
    settings = { "let g:truce_command = '/nowhere/truce'" },
  })
  editor:said("the command '/nowhere/truce' was not found; set g:truce_command")
  editor:command('edit!')
  edit(editor, stage.mount .. '/b')
  editor:command('write')
  editor:change('text')
  editor:command('write')
  local _, count = editor:messages():gsub('was not found', '')
  assert(count == 1, 'said more than once')
end

local function command_fails(stage)
  local editor = stage:editor({
    environment = { TRUCE_SOCKET = '' }, settings = { "let g:truce_command = 'false'" },
  })
  editor:said("'false socket' failed: exit status 1")
end

-- The plug-in must not trust a socket of a third user, nor a file that is no socket.
local function mistrusts(stage)
  local daemon = stage:daemon()
  local settings = {}
  if vim.loop.getuid() == 0 then
    assert(vim.loop.fs_chown(stage.socket, 4711, 4711))
  else
    settings = { 'lua vim.loop.getuid = function() return 4711 end' }
  end
  local editor = stage:editor({ settings = settings })
  editor:said('which is neither you nor root')
  assert(daemon:count('opened') == 0)
  os.remove(stage.socket)
  stages.write(stage.socket, '')
  editor:said('truce: no socket:')
end

local function status(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  assert(daemon:call('relinquishToReader', presenter, { turn = 3 }))
  local lines = table.concat(editor:lua([[return require('truce.views').status_lines()]]), '\n')
  assert(lines:find(stage.mount .. ': connected', 1, true), lines)
  for _, part in ipairs({ 'notes.md [+] [in use by cat (712)]', 'cat (712), to read' }) do
    assert(lines:find(part, 1, true), lines)
  end
  editor:type(':TruceStatus<CR>')
  eventually('the end of the list', function() return editor:mode().blocking end)
  editor:type('<CR>')
  eventually('the editor', function() return not editor:mode().blocking end)
end

return {
  { 'files of a mount are presented, with all messages', registers },
  { 'the help is found', help },
  { 'names are resolved, and may be any bytes', names },
  { 'presenters come and go with their buffers', comes_and_goes },
  { 'many buffers are presented', many },
  { 'a refusal to present is told once', refused },
  { 'a daemon that restarts is found again, and what it did not tell', restarts },
  { 'a file that was out of sight is what it was, with unsaved text', out_of_sight(true) },
  { 'a file that was out of sight is what it was', out_of_sight(false) },
  { 'a daemon that starts late is found', starts_late },
  { 'without a buffer nothing is tried', nobody_needs_it },
  { 'without a mount nothing is tried', unmounted },
  { 'nonsense ends a connection', nonsense },
  { 'messages come in any pieces', pieces },
  { 'the command tells the socket', asks_the_command },
  { 'a missing command is told once', has_no_command },
  { 'a failing command is told', command_fails },
  { 'a socket of another user is not trusted', mistrusts },
  { 'the status names the program that asked', status },
}
