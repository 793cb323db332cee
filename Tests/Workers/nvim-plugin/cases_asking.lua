-- SPDX-License-Identifier: Apache-2.0
-- Questions of the daemon to the plug-in: to save a file, and to relinquish it.

local stages = require('stage')
local eventually = stages.eventually

local function clean(stage)
  local daemon, editor, presenter = stage:presented()
  local before = vim.loop.fs_stat(stage.file)
  assert(daemon:call('save', presenter))
  assert(vim.deep_equal(vim.loop.fs_stat(stage.file).mtime, before.mtime), 'a clean buffer was written')
  assert(not editor:messages():find('truce:'), 'a note about nothing')
end

local function dirty(settings)
  return function(stage)
    local daemon, editor, presenter = stage:presented({ settings = settings })
    editor:change('zero')
    assert(editor:option('modified'))
    local undo = editor:lua('return vim.fn.undotree().seq_cur')
    assert(daemon:call('save', presenter))
    assert(stages.read(stage.file) == 'zero\none\ntwo\nthree\n', 'the file does not hold the text')
    assert(not editor:option('modified'))
    assert(editor:lua('return vim.fn.undotree().seq_cur') == undo)
    editor:said('truce: cat (712) asked to read notes.md: saved')
    -- After the save, a change that Neovim notices is not attributed to the program that asked for the save.
    editor:change('more')
    editor:type(':echo "something else"<CR>')
    stages.write(stage.file, 'theirs\n')
    editor:command('checktime')
    editor:said('an unknown program changed notes.md')
    editor:command('edit!')
    stages.write(stage.file, 'zero\none\ntwo\nthree\n')
    editor:command('edit!')
    -- The user's own writes go on as usual.
    editor:change('minus one')
    editor:command('write')
    assert(stages.read(stage.file) == 'minus one\nzero\none\ntwo\nthree\n')
  end
end

-- The daemon is told when a buffer begins to have unsaved text and when this ends. If a request ends it, the daemon is told
-- before the answer.
local function unsaved(stage)
  local daemon, editor, presenter = stage:presented()
  local function told()
    local parameters = daemon:next('presenter/unsaved').params
    assert(parameters.presenter == presenter)
    return parameters.isUnsaved
  end
  editor:change('zero')
  assert(told() == true)
  editor:change('more')
  assert(daemon:call('save', presenter))
  assert(told() == false, 'told twice, or not when it was saved')
  editor:type('ggOabc<Esc>')
  assert(told() == true)
  editor:type('u')
  assert(told() == false, 'undoing was not told')
  editor:type('x')
  assert(told() == true)
  editor:command('write')
  assert(told() == false, 'writing was not told')
  editor:change('once more')
  assert(told() == true)
  editor:command('edit!')
  assert(told() == false, 'reading again was not told')
end

local function inserting(stage)
  local daemon, editor, presenter = stage:presented()
  editor:type('ggOabc')
  editor:shows('abc\none\ntwo\nthree')
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == 'abc\none\ntwo\nthree\n')
  editor:type('def')
  editor:shows('abcdef\none\ntwo\nthree')
  assert(editor:mode().mode == 'i' and editor:option('modified'))
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == 'abcdef\none\ntwo\nthree\n')
end

local function elsewhere(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('zero')
  editor:command('split')
  editor:command('enew')
  local here = editor:lua('return {vim.api.nvim_get_current_win(), vim.api.nvim_get_current_buf()}')
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == 'zero\none\ntwo\nthree\n')
  editor:command('only')
  assert(editor:lua('return #vim.fn.win_findbuf(1)') == 0, 'the buffer is not hidden')
  editor:lua([[vim.fn.setbufline(1, 1, 'hidden')]])
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == 'hidden\none\ntwo\nthree\n')
  assert(vim.deep_equal(
    editor:lua('return {vim.api.nvim_get_current_win(), vim.api.nvim_get_current_buf()}'), here))
end

local function in_command_line(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('zero')
  for keys, mode in pairs({ [':let g:a = 1'] = 'c', ['q:iabc'] = 'i', v = 'v', d = 'no', ['/two'] = 'c' }) do
    editor:lua([[vim.fn.setbufline(1, 1, ...)]], keys)
    editor:type(keys)
    eventually('mode ' .. mode, function() return editor:mode().mode:sub(1, #mode) == mode end)
    local saved, why = daemon:call('save', presenter)
    assert(saved, ('%s: %s'):format(keys, why))
    assert(stages.read(stage.file) == keys .. '\none\ntwo\nthree\n', keys)
    if keys:match('^q') then
      editor:type('<Esc>')
      editor:command('quit')
    else
      editor:type('<C-c>')
    end
    eventually('normal mode', function() return editor:mode().mode == 'n' end)
  end
end

local function while_a_key_is_waited_for(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('zero')
  editor:type(':echo "a\\nb"<CR>')
  eventually('the question', function() return editor:mode().blocking end)
  local saved, why = daemon:call('save', presenter)
  assert(not saved and why:find('key'), why)
  local turn = daemon:ask('relinquishToReader', presenter, { turn = 5 })
  assert(daemon:answer(turn).error)
  editor:type('<CR>')
  eventually('the editor', function() return not editor:mode().blocking end)
  -- The agreement to relinquish, given late, still counts. But the save that was refused is not made later.
  assert(stages.read(stage.file) == 'one\ntwo\nthree\n', 'saved after the refusal')
  editor:eventually('the turn', 'vim.bo.readonly')
  daemon:notify('reacquire', presenter, { turn = 5 })
  editor:eventually('the end of the turn', 'not vim.bo.readonly')
  assert(daemon:call('save', presenter))
end

local function read_only(settings)
  return function(stage)
    local daemon, editor, presenter = stage:presented({ settings = settings })
    editor:change('zero')
    editor:command('setlocal readonly')
    local saved, why = daemon:call('save', presenter)
    assert(not saved and why:find('E45'), why)
    assert(stages.read(stage.file) == 'one\ntwo\nthree\n')
    assert(editor:option('readonly') and editor:option('modified'))
    editor:said('not saved')
    assert(editor:lua('return vim.o.confirm') == (#settings > 0))
  end
end

local function autocommands(stage)
  local daemon, editor, presenter = stage:presented()
  editor:command([[autocmd BufWritePre <buffer> %s/two/TWO/e]])
  editor:change('zero')
  -- Another program is writing, and the formatter makes Neovim handle its next event during the save.
  editor:lua([[vim.api.nvim_create_autocmd('BufWritePre', { buffer = 1, callback = function()
    vim.g.writing = true
    vim.wait(5000, function() return vim.g.go_on end, 5)
  end })]])
  assert(daemon:call('relinquishToWriter', presenter, { turn = 3 }))
  local save = daemon:ask('save', presenter, { turn = 3 })
  editor:eventually('the write', 'vim.g.writing')
  local second = daemon:ask('save', presenter, { turn = 3 })
  daemon:notify('reacquire', presenter, { turn = 3 })
  editor:eventually('the messages that wait', [[(function()
    for _, link in pairs(require('truce.presenters').connections()) do return #link.inbox == 2 end
  end)()]])
  editor:lua('vim.g.go_on = true')
  assert(not daemon:answer(save).error and not daemon:answer(second).error)
  local answered = {}
  for _, message in ipairs(daemon.messages) do
    if message.id then answered[message.id] = vim.tbl_count(answered) + 1 end
  end
  assert(answered[save] < answered[second], 'a message overtook another')
  daemon:settle(presenter)
  assert(stages.read(stage.file) == 'zero\none\nTWO\nthree\n')
  assert(editor:option('modifiable') and not editor:option('readonly'), 'the turn did not end')
end

local function failing_autocommand(stage)
  local daemon, editor, presenter = stage:presented()
  editor:command([[autocmd BufWritePre <buffer> throw 'not today']])
  editor:change('zero')
  local saved, why = daemon:call('save', presenter)
  assert(not saved and why:find('not today'), why)
  assert(editor:option('modified') and stages.read(stage.file) == 'one\ntwo\nthree\n')
end

local function conflict(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  stages.write(stage.file, 'theirs\n')
  local saved, why = daemon:call('save', presenter)
  assert(not saved and why == 'unsaved text conflicts with a newer file', why)
  assert(stages.read(stage.file) == 'theirs\n', 'the newer file was overwritten')
  editor:shows('mine\none\ntwo\nthree')
  assert(editor:lua('return vim.b.truce_state') == 'conflict')
  saved, why = daemon:call('save', presenter)
  assert(not saved and why == 'unsaved text conflicts with a newer file', why)
end

-- A case that the plug-in does not know: the file changed before the plug-in started, and Neovim was told to ignore the change.
local function question(stage)
  local daemon = stage:daemon()
  local settings = { 'let g:loaded_truce = 1', 'autocmd FileChangedShell * let g:told = 1' }
  local editor = stage:editor({ settings = settings })
  editor:change('mine')
  stages.write(stage.file, 'theirs\n')
  editor:command('checktime')
  assert(editor:lua('return vim.g.told') == 1)
  editor:lua([[require('truce').start()]])
  local presenter = daemon:registered('notes.md')
  local saved, why = daemon:call('save', presenter)
  assert(not saved and why:find('question'), why)
  assert(stages.read(stage.file) == 'theirs\n')
  eventually('the editor', function() return not editor:mode().blocking end)
  editor:shows('mine\none\ntwo\nthree')
end

local function formats(stage)
  stages.write(stage.file, '\239\187\191eins\r\nzw\195\182lf')
  local daemon, editor, presenter = stage:presented({ settings = { 'set nofixeol' } })
  assert(editor:option('fileformat') == 'dos' and editor:option('bomb'))
  editor:command('2s/$/!/')
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == '\239\187\191eins\r\nzw\195\182lf!', stages.read(stage.file))
end

local function headless(stage)
  local daemon, editor, presenter = stage:presented({ headless = true })
  editor:lua([[vim.fn.setline(1, 'first')]])
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == 'first\ntwo\nthree\n')
  assert(daemon:call('relinquishToWriter', presenter, { turn = 4 }))
  assert(not editor:option('modifiable'))
  daemon:notify('reacquire', presenter, { turn = 4 })
  editor:eventually('the end of the turn', 'vim.bo.modifiable')
end

local function strangers(stage)
  local daemon, _, presenter = stage:presented()
  local answer = daemon:answer(daemon:ask('dance', presenter))
  assert(answer.error.code == -32601)
  assert(daemon:call('save', 4711), 'a presenter that is gone objects')
  daemon:notify('somethingNew', presenter)
  daemon:send({ jsonrpc = '2.0', method = 'news' })
  daemon:send({ jsonrpc = '2.0', id = 5, result = {} })
  assert(daemon:call('save', presenter, { newMember = { 1 } }))
end

-- MARK: Deletion

local function deletes(daemon, presenter, turn, delete)
  assert(daemon:call('relinquishToWriter', presenter, { turn = turn }))
  assert(daemon:call('accommodateDeletion', presenter, { turn = turn }))
  delete()
  daemon:notify('reacquire', presenter, { turn = turn })
end

local function goes(stage)
  local daemon, editor, presenter = stage:presented()
  deletes(daemon, presenter, 2, function() os.remove(stage.file) end)
  assert(daemon:next('presenter/remove').params.presenter == presenter)
  assert(editor:lua('return vim.fn.bufname()') == '', 'the window shows something else')
  assert(editor:text() == '' and editor:lua('return #vim.api.nvim_list_wins()') == 1)
  assert(editor:lua('return vim.fn.buflisted(1)') == 0)
  editor:said('cat (712) deleted notes.md: closed')
end

-- If the file is deleted while the user types, the rest of the sentence must not go into another document.
local function goes_while_typing(stage)
  local other = stage.mount .. '/other.md'
  stages.write(other, 'other\n')
  local daemon, editor, presenter = stage:presented()
  editor:command('edit ' .. vim.fn.fnameescape(other))
  daemon:registered('other.md')
  editor:command('buffer 1')
  editor:type('ggOhello ')
  eventually('what is typed', function() return editor:text():sub(1, 6) == 'hello ' end)
  assert(daemon:call('save', presenter))
  assert(daemon:call('accommodateDeletion', presenter, { turn = 3 }))
  os.remove(stage.file)
  daemon:notify('reacquire', presenter, { turn = 3 })
  editor:eventually('the mark', 'vim.b.truce_state == "deleted"')
  editor:type('world')
  editor:shows('hello world\none\ntwo\nthree', 1)
  assert(editor:text(2) == 'other', editor:text(2))
end

local function stays(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('zero')
  deletes(daemon, presenter, 2, function() os.remove(stage.file) end)
  editor:eventually('the mark', 'vim.b.truce_state == "deleted"')
  assert(editor:lua([[return require('truce').status()]]) == 'truce:deleted')
  editor:said('unsaved text')
  local saved, why = daemon:call('save', presenter)
  assert(not saved and why:find('deleted'), why)
  assert(not daemon:has('presenter/remove'))
  editor:command('write')
  assert(stages.read(stage.file) == 'zero\none\ntwo\nthree\n')
  assert(editor:lua('return vim.b.truce_state == nil'))
  editor:change('again')
  assert(daemon:call('save', presenter))
  assert(stages.read(stage.file) == 'again\nzero\none\ntwo\nthree\n')
end

local function comes_back(stage)
  local daemon, editor, presenter = stage:presented()
  deletes(daemon, presenter, 2, function()
    os.remove(stage.file)
    stages.write(stage.file, 'anew\n')
  end)
  editor:shows('anew')
  assert(editor:lua('return vim.fn.bufnr()') == 1 and not daemon:has('presenter/remove'))
  -- If the announced deletion does not happen, the plug-in forgets it.
  editor:change('mine')
  assert(daemon:call('accommodateDeletion', presenter, { turn = 3 }))
  assert(editor:lua('return vim.b.truce_state') == 'deleted')
  editor:eventually('the end of the mark', 'vim.b.truce_state == nil')
end

local function comes_back_to_unsaved_text(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  deletes(daemon, presenter, 2, function() os.remove(stage.file) end)
  editor:eventually('the mark', 'vim.b.truce_state == "deleted"')
  stages.write(stage.file, 'theirs\n')
  daemon:notify('didChange', presenter, { turn = 3 })
  editor:eventually('the conflict', 'vim.b.truce_state == "conflict"')
  assert(stages.read(stage.file) == 'theirs\n')
end

return {
  { 'a clean buffer is up to date', clean },
  { 'unsaved text is saved on request', dirty({}) },
  { 'with backupcopy=auto', dirty({ 'set backupcopy=auto' }) },
  { 'with backupcopy=yes', dirty({ 'set backupcopy=yes' }) },
  { 'with backupcopy=no', dirty({ 'set backupcopy=no backup' }) },
  { 'with autowrite and hidden off', dirty({ 'set autowrite nohidden noswapfile' }) },
  { 'unsaved text is told of', unsaved },
  { 'saved while the user types', inserting },
  { 'saved from another window, and hidden', elsewhere },
  { 'saved in the middle of a command', in_command_line },
  { 'no program waits for a key press', while_a_key_is_waited_for },
  { 'a read-only buffer refuses', read_only({}) },
  { 'a read-only buffer refuses without a question', read_only({ 'set confirm' }) },
  { 'autocommands run, and messages wait for them', autocommands },
  { 'an autocommand that fails is a refusal', failing_autocommand },
  { 'a newer file is not overwritten', conflict },
  { 'a question of Neovim is declined', question },
  { 'formats are kept', formats },
  { 'without a terminal', headless },
  { 'unknown messages do no harm', strangers },
  { 'a deleted file is closed', goes },
  { 'a deleted file stays while the user types', goes_while_typing },
  { 'unsaved text stays when the file goes', stays },
  { 'a file that is made anew stays open', comes_back },
  { 'a file that comes back meets unsaved text', comes_back_to_unsaved_text },
}
