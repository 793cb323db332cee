-- SPDX-License-Identifier: Apache-2.0
-- Turns: what the user cannot do in a buffer while another program reads or writes its file.

local stages = require('stage')
local eventually = stages.eventually

local function options(editor)
  return (editor:option('readonly') and 'readonly ' or '') .. (editor:option('modifiable') and '' or 'fixed')
end

local function expect(editor, expected)
  assert(options(editor) == expected, ('%q instead of %q'):format(options(editor), expected))
end

local function begins(daemon, presenter, kind, turn)
  assert(daemon:call('relinquishTo' .. kind, presenter, { turn = turn }))
end

local function ends(daemon, presenter, turn)
  daemon:notify('reacquire', presenter, { turn = turn })
  daemon:settle(presenter)
end

local function reader(stage)
  local daemon, editor, presenter = stage:presented()
  begins(daemon, presenter, 'Reader', 7)
  expect(editor, 'readonly ')
  assert(editor:lua([[return require('truce').status()]]) == 'truce:turn')
  -- Typing goes on at once. Neovim would wait a second for its warning at the first change of a read-only buffer.
  local began = vim.loop.now()
  editor:change('zero')
  vim.loop.update_time()
  assert(vim.loop.now() - began < 900, ('typing took %d ms'):format(vim.loop.now() - began))
  assert(not editor:messages():find('W10'), 'a warning')
  editor:eventually('the lock', 'vim.bo.readonly')
  assert(not pcall(editor.command, editor, 'write'), 'the turn was not respected')
  assert(stages.read(stage.file) == 'one\ntwo\nthree\n')
  assert(daemon:call('save', presenter, { turn = 7 }))
  assert(stages.read(stage.file) == 'zero\none\ntwo\nthree\n')
  expect(editor, 'readonly ')
  ends(daemon, presenter, 7)
  expect(editor, '')
  editor:change('again')
  editor:command('write')
end

local function writer(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('zero')
  begins(daemon, presenter, 'Writer', 7)
  expect(editor, 'readonly fixed')
  assert(daemon:call('save', presenter, { turn = 7 }))
  expect(editor, 'readonly fixed')
  stages.write(stage.file, 'theirs\n')
  daemon:notify('didChange', presenter, { turn = 7 })
  daemon:settle(presenter)
  editor:shows('theirs')
  expect(editor, 'readonly fixed')
  ends(daemon, presenter, 7)
  expect(editor, '')
  assert(editor:lua('return vim.b.truce_state == nil'))
end

local function nested(stage)
  local daemon, editor, presenter = stage:presented()
  begins(daemon, presenter, 'Reader', 1)
  begins(daemon, presenter, 'Reader', 2)
  begins(daemon, presenter, 'Writer', 3)
  expect(editor, 'readonly fixed')
  ends(daemon, presenter, 1)
  expect(editor, 'readonly fixed')
  ends(daemon, presenter, 3)
  expect(editor, 'readonly ')
  -- Two requests of one access session, each of which is ended by a notice. The end of an unknown session has no effect.
  begins(daemon, presenter, 'Writer', 2)
  ends(daemon, presenter, 4711)
  expect(editor, 'readonly fixed')
  ends(daemon, presenter, 2)
  expect(editor, 'readonly ')
  ends(daemon, presenter, 2)
  expect(editor, '')
  ends(daemon, presenter, 2)
  expect(editor, '')
end

local function own_values(stage)
  local daemon, editor, presenter = stage:presented()
  editor:command('setlocal readonly nomodifiable')
  begins(daemon, presenter, 'Reader', 1)
  begins(daemon, presenter, 'Writer', 2)
  ends(daemon, presenter, 2)
  stages.write(stage.file, 'theirs\n')
  daemon:notify('didChange', presenter, { turn = 3 })
  daemon:settle(presenter)
  editor:shows('theirs')
  expect(editor, 'readonly fixed')
  ends(daemon, presenter, 1)
  expect(editor, 'readonly fixed')
end

-- The user presses keys while another program writes for a short time. The keys go into the other program's new text.
local function typing_is_held(stage)
  local daemon, editor, presenter = stage:presented()
  editor:type('GA!')
  editor:shows('one\ntwo\nthree!')
  begins(daemon, presenter, 'Writer', 7)
  assert(daemon:call('save', presenter, { turn = 7 }))
  editor:type(' four')
  local text = stages.read(stage.file)
  assert(text == 'one\ntwo\nthree!\n', text)
  stages.write(stage.file, 'zero\n' .. text)
  daemon:notify('didChange', presenter, { turn = 7 })
  daemon:notify('reacquire', presenter, { turn = 7 })
  editor:shows('zero\none\ntwo\nthree! four')
  assert(editor:mode().mode == 'i')
  assert(editor:lua('return vim.b.truce_state == nil'), 'a conflict')
  -- The other program's text and the typed text are undone separately.
  editor:type('<Esc>u')
  editor:shows('zero\none\ntwo\nthree!')
  editor:type('u')
  editor:shows('one\ntwo\nthree!')
  editor:type('u')
  editor:shows('one\ntwo\nthree')
end

-- The user types while another program writes for a long time. Typing goes on, and both texts are preserved.
local function typing_goes_on(stage)
  local daemon, editor, presenter = stage:presented()
  editor:type('GA')
  eventually('insert mode', function() return editor:mode().mode == 'i' end)
  begins(daemon, presenter, 'Writer', 7)
  editor:type('! four<CR>five')
  editor:shows('one\ntwo\nthree! four\nfive')
  stages.write(stage.file, 'theirs\n')
  daemon:notify('didChange', presenter, { turn = 7 })
  editor:eventually('the conflict', 'vim.b.truce_state == "conflict"')
  editor:shows('one\ntwo\nthree! four\nfive')
  assert(stages.read(stage.file) == 'theirs\n')
  editor:type('<Esc>')
  eventually('normal mode', function() return editor:mode().mode == 'n' end)
  expect(editor, 'readonly fixed')
  ends(daemon, presenter, 7)
  expect(editor, '')
end

local function ends_with_the_connection(stage)
  local daemon, editor, presenter = stage:presented()
  begins(daemon, presenter, 'Writer', 7)
  daemon:tell({ ['hang up'] = true })
  editor:eventually('the end of the turn', 'vim.bo.modifiable and not vim.bo.readonly')
  local again = daemon:registered('notes.md')
  daemon:settle(again)
  expect(editor, '')
end

local function ends_with_the_buffer(stage)
  local daemon, editor, presenter = stage:presented()
  begins(daemon, presenter, 'Writer', 7)
  editor:command('bdelete')
  daemon:next('presenter/remove')
  editor:command('edit ' .. vim.fn.fnameescape(stage.file))
  daemon:registered('notes.md')
  expect(editor, '')
end

-- The user reads the file again with `:edit!` during a turn. The turn goes on.
local function survives_editing_anew(stage)
  local daemon, editor, presenter = stage:presented()
  begins(daemon, presenter, 'Reader', 7)
  editor:command('edit!')
  daemon:settle(presenter)
  assert(not daemon:has('presenter/remove') and not daemon:has('presenter/register'))
  ends(daemon, presenter, 7)
  expect(editor, '')
end

return {
  { 'a reader makes the buffer read-only, and typing goes on', reader },
  { 'a writer holds the text, and its own is read', writer },
  { 'turns nest', nested },
  { "the user's own options come back", own_values },
  { 'typing is held back in a short turn', typing_is_held },
  { 'typing goes on in a long turn', typing_goes_on },
  { 'turns end with the connection', ends_with_the_connection },
  { 'turns end with the buffer', ends_with_the_buffer },
  { 'reading the file anew ends no turn', survives_editing_anew },
}
