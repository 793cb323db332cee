-- SPDX-License-Identifier: Apache-2.0
-- Notices of the daemon to the plug-in: a file has changed, or has moved.

local stages = require('stage')
local eventually = stages.eventually

local function numbered(first, last)
  local lines = {}
  for number = first, last do lines[#lines + 1] = 'line ' .. number end
  return table.concat(lines, '\n') .. '\n'
end

local function tells_change(daemon, presenter)
  daemon:notify('didChange', presenter, {
    turn = 9, cause = { pid = 5, program = 'sed', operation = 'updating' },
  })
  daemon:settle(presenter)
end

local function clean(settings)
  return function(stage)
    stages.write(stage.file, numbered(1, 200))
    local daemon, editor, presenter = stage:presented({ settings = settings })
    editor:type('100Gwmaz<CR>')
    editor:eventually('the mark', [[vim.fn.line("'a") == 100 and vim.fn.line('w0') == 100]])
    stages.write(stage.file, 'new\nnew\n' .. numbered(1, 200))
    tells_change(daemon, presenter)
    editor:shows('new\nnew\n' .. numbered(1, 200):sub(1, -2))
    assert(vim.deep_equal(editor:lua('return vim.api.nvim_win_get_cursor(0)'), { 102, 0 })
      or vim.deep_equal(editor:lua('return vim.api.nvim_win_get_cursor(0)'), { 102, 5 }))
    assert(editor:lua([[return vim.fn.line("'a")]]) == 102, 'the mark did not follow')
    assert(editor:lua([[return vim.fn.line('w0')]]) == 102, 'the view jumped')
    assert(not editor:option('modified'))
    editor:type('u')
    editor:shows(numbered(1, 200):sub(1, -2))
    -- The next write does not make Neovim warn that the file has changed.
    editor:command('write')
    assert(stages.read(stage.file) == numbered(1, 200))
  end
end

local function hidden(stage)
  local daemon, editor, presenter = stage:presented()
  editor:command('enew')
  stages.write(stage.file, 'theirs\n')
  tells_change(daemon, presenter)
  editor:shows('theirs', 1)
end

-- Neovim itself notices a change of the file.
local function noticed(stage)
  local _, editor = stage:presented({ settings = { 'set noautoread' } })
  stages.write(stage.file, 'theirs\n')
  editor:type(':checktime<CR>')
  editor:shows('theirs')
end

local function same_time(stage)
  local daemon, editor, presenter = stage:presented()
  local time = vim.loop.fs_stat(stage.file).mtime
  local seconds = time.sec + time.nsec / 1e9
  vim.loop.fs_utime(stage.file, 1e9, 1e9)
  tells_change(daemon, presenter)
  editor:command('setlocal readonly')
  stages.write(stage.file, 'ONE\ntwo\nthree\n')
  vim.loop.fs_utime(stage.file, 1e9, 1e9)
  assert(seconds > 1e9)
  tells_change(daemon, presenter)
  editor:shows('ONE\ntwo\nthree')
  assert(editor:option('readonly'))
  -- The file has not changed since the last notice, so the plug-in does not read it again.
  local tick = editor:lua('return vim.b.changedtick')
  tells_change(daemon, presenter)
  assert(editor:lua('return vim.b.changedtick') == tick)
end

local function while_typing(stage)
  local daemon, editor, presenter = stage:presented()
  editor:type('Gi')
  eventually('insert mode', function() return editor:mode().mode == 'i' end)
  stages.write(stage.file, 'zero\none\ntwo\nthree\n')
  tells_change(daemon, presenter)
  editor:shows('zero\none\ntwo\nthree')
  editor:type('my ')
  editor:shows('zero\none\ntwo\nmy three')
  assert(editor:mode().mode == 'i')
end

local function dirty(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  stages.write(stage.file, 'theirs\n')
  tells_change(daemon, presenter)
  assert(editor:lua('return vim.b.truce_state') == 'conflict')
  assert(editor:lua('return vim.b.truce_conflict') == true)
  assert(editor:lua([[return require('truce').status()]]) == 'truce:conflict')
  editor:said('truce: sed (5) changed notes.md, which has unsaved text here')
  tells_change(daemon, presenter)
  stages.write(stage.file, 'theirs again\n')
  tells_change(daemon, presenter)
  local _, count = editor:messages():gsub('unsaved text here', '')
  assert(count == 1, 'said more than once')
  assert(editor:text() == 'mine\none\ntwo\nthree' and stages.read(stage.file) == 'theirs again\n')
  -- Neovim checks the file when it gets the focus. This check must not ask the user a question.
  editor:command('checktime')
  assert(not editor:mode().blocking)
end

local function diff(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  stages.write(stage.file, 'theirs\n')
  tells_change(daemon, presenter)
  editor:command('TruceDiff')
  assert(editor:lua('return vim.fn.bufnr()') == 1, 'the cursor left the text')
  assert(editor:lua('return #vim.api.nvim_list_wins()') == 2)
  local other = editor:lua([[
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      assert(vim.wo[window].diff)
      local buffer = vim.api.nvim_win_get_buf(window)
      if buffer ~= 1 then return vim.api.nvim_buf_get_lines(buffer, 0, -1, false) end
    end
  ]])
  assert(vim.deep_equal(other, { 'theirs' }), vim.inspect(other))
  editor:command('only')
  editor:command('enew!')
  editor:command('TruceDiff')
  editor:said('this buffer shows no file of a mount')
end

local function resolved(stage)
  local daemon, editor, presenter = stage:presented()
  local function conflict()
    editor:change('mine')
    stages.write(stage.file, 'theirs\n')
    tells_change(daemon, presenter)
    assert(editor:lua('return vim.b.truce_state') == 'conflict')
  end
  -- If the file has changed and the buffer has unsaved text, `:w` makes Neovim ask the user a question.
  local function write(answer)
    editor:type(':w<CR>')
    eventually('the question', function() return editor:mode().blocking end)
    editor:type(answer)
    eventually('the editor', function()
      if editor:mode().blocking then editor:type('<CR>') end
      return not editor:mode().blocking and editor:mode().mode == 'n'
    end)
  end
  conflict()
  editor:command('set cpoptions+=+')
  editor:command('write ' .. vim.fn.fnameescape(stage.root .. '/copy'))
  assert(editor:lua('return vim.b.truce_state') == 'conflict', 'a copy ended the conflict')
  editor:command('set cpoptions-=+ | setlocal modified')
  write('n')
  assert(editor:lua('return vim.b.truce_state') == 'conflict', 'a write that failed ended the conflict')
  assert(stages.read(stage.file) == 'theirs\n')
  assert(not daemon:call('save', presenter))
  write('y')
  assert(stages.read(stage.file) == 'mine\none\ntwo\nthree\n')
  assert(editor:lua('return vim.b.truce_state == nil and vim.b.truce_conflict == nil'))
  conflict()
  editor:command('edit!')
  assert(editor:lua('return vim.b.truce_state == nil'))
  editor:shows('theirs')
end

local function touched(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  tells_change(daemon, presenter)
  assert(editor:lua('return vim.b.truce_state == nil'), 'a conflict with nothing')
  assert(daemon:call('save', presenter))
end

-- MARK: Moves

local function tells_move(daemon, presenter, from, to, more)
  daemon:notify('didMove', presenter, vim.tbl_extend('force', {
    turn = 9, path = from, newPath = to, cause = { pid = 5, program = 'mv', operation = 'forMoving' },
  }, more or {}))
  daemon:settle(presenter)
end

local function moved(is_dirty)
  return function(stage)
    local daemon, editor, presenter = stage:presented({ settings = { 'set confirm' } })
    editor:command('edit ' .. vim.fn.fnameescape(stage.root .. '/other'))
    editor:command('buffer 1')
    if is_dirty then editor:change('mine') end
    local tick = editor:lua('return vim.b.changedtick')
    local text = editor:text()
    local new = stage.mount .. "/deep/it's new.md"
    assert(vim.loop.fs_rename(stage.file, new))
    tells_move(daemon, presenter, 'notes.md', "deep/it's new.md")
    assert(editor:lua('return vim.api.nvim_buf_get_name(1)') == new)
    assert(editor:lua('return vim.fn.bufnr()') == 1 and editor:text() == text)
    assert(editor:option('modified') == is_dirty and not editor:option('readonly'))
    assert(editor:lua('return vim.b.changedtick') == tick, 'the buffer changed')
    assert(editor:lua('return #vim.api.nvim_list_bufs()') == 2, 'a buffer is left under the old name')
    assert(editor:lua([[return vim.fn.bufnr('#')]]) == 2, 'another alternate file')
    assert(not daemon:has('presenter/remove') and not daemon:has('presenter/register'))
    editor:said("mv (5) moved notes.md to deep/it's new.md")
    if is_dirty then
      assert(daemon:call('save', presenter))
      assert(stages.read(new) == 'mine\none\ntwo\nthree\n')
    end
    -- After the move, a change of the file is noticed, and `:w` works without `!`.
    stages.write(new, 'theirs\n')
    tells_change(daemon, presenter)
    editor:shows('theirs')
    editor:lua([[vim.fn.setline(1, 'last')]])
    editor:type(':w<CR>')
    eventually('the write', function() return stages.read(new) == 'last\n' end)
    assert(not stages.read(stage.file), 'the old name is back')
  end
end

-- The user writes the file for the first time after a move. The plug-in must not have made this write itself.
local function written_after_move(stage)
  local daemon, editor, presenter = stage:presented()
  editor:change('mine')
  local new = stage.mount .. '/new.md'
  assert(vim.loop.fs_rename(stage.file, new))
  tells_move(daemon, presenter, 'notes.md', 'new.md')
  editor:type(':w<CR>')
  eventually('the write', function() return stages.read(new) == 'mine\none\ntwo\nthree\n' end)
  editor:command('undo')
  assert(editor:option('modified'))
end

-- The buffer's file is changed by another program and moved. Whichever notice comes first, the plug-in must not take the other
-- program's text for the text that the buffer was read from.
local function moved_in_conflict(tells_change_first)
  return function(stage)
    local daemon, editor, presenter = stage:presented()
    editor:change('mine')
    stages.write(stage.file, 'theirs\n')
    if tells_change_first then tells_change(daemon, presenter) end
    local new = stage.mount .. '/new.md'
    assert(vim.loop.fs_rename(stage.file, new))
    tells_move(daemon, presenter, 'notes.md', 'new.md')
    if not tells_change_first then tells_change(daemon, presenter) end
    assert(editor:lua('return vim.b.truce_state') == 'conflict')
    editor:type(':w<CR>')
    editor:said('E13')
    assert(stages.read(new) == 'theirs\n', 'written over without a question')
    editor:command('write!')
    assert(stages.read(new) == 'mine\none\ntwo\nthree\n')
    editor:eventually('the end of the conflict', 'vim.b.truce_state == nil')
  end
end

local function touched_and_moved(stage)
  local daemon, editor, presenter = stage:presented()
  local new = stage.mount .. '/new.md'
  assert(vim.loop.fs_rename(stage.file, new))
  vim.loop.fs_utime(new, 1e9, 1e9)
  tells_move(daemon, presenter, 'notes.md', 'new.md')
  tells_change(daemon, presenter)
  editor:change('mine')
  editor:type(':w<CR>')
  eventually('the write', function() return stages.read(new) == 'mine\none\ntwo\nthree\n' end)
  editor:change('more')
  local saved, why = daemon:call('save', presenter)
  assert(saved, why)
end

local function moved_in_turn(stage)
  local daemon, editor, presenter = stage:presented()
  editor:command('split')
  editor:command('enew')
  assert(daemon:call('relinquishToWriter', presenter, { turn = 4 }))
  local new = stage.mount .. '/new.md'
  assert(vim.loop.fs_rename(stage.file, new))
  tells_move(daemon, presenter, 'notes.md', 'new.md')
  assert(editor:option('readonly', 1) and not editor:option('modifiable', 1))
  daemon:notify('reacquire', presenter, { turn = 4 })
  daemon:settle(presenter)
  assert(not editor:option('readonly', 1) and editor:option('modifiable', 1))
  assert(editor:lua('return vim.api.nvim_buf_get_name(1)') == new)
end

local function moved_over_open_file(stage)
  local other = stage.mount .. '/other.md'
  stages.write(other, 'other\n')
  local daemon, editor, presenter = stage:presented()
  editor:command('split ' .. vim.fn.fnameescape(other))
  daemon:registered('other.md')
  assert(vim.loop.fs_rename(stage.file, other))
  tells_move(daemon, presenter, 'notes.md', 'other.md')
  assert(editor:lua('return vim.api.nvim_buf_get_name(1)') == other)
  assert(editor:lua('return #vim.api.nvim_list_bufs()') == 1)
  assert(editor:lua('return #vim.api.nvim_list_wins()') == 2)
  daemon:next('presenter/remove')
  assert(editor:text() == 'one\ntwo\nthree')
end

local function moved_over_unsaved_text(stage)
  local other = stage.mount .. '/other.md'
  stages.write(other, 'other\n')
  local daemon, editor, presenter = stage:presented()
  editor:command('split ' .. vim.fn.fnameescape(other))
  daemon:registered('other.md')
  editor:change('mine')
  assert(vim.loop.fs_rename(stage.file, other))
  tells_move(daemon, presenter, 'notes.md', 'other.md')
  editor:said('the buffer cannot follow')
  assert(editor:text() == 'mine\nother')
  assert(editor:lua('return vim.api.nvim_buf_get_name(1)') == stage.file)
end

local function moved_to_bytes(stage)
  local daemon, editor, presenter = stage:presented()
  local new = stage.mount .. '/n\255w'
  assert(vim.loop.fs_rename(stage.file, new))
  tells_move(daemon, presenter, 'notes.md', 'n?w', { newPathBytes = require('truce.text').base64('n\255w') })
  assert(editor:lua('return vim.fn.char2nr(vim.fn.bufname(1):sub(-2, -2), 0) ~= 63'))
  editor:change('mine')
  assert(daemon:call('save', presenter))
  assert(stages.read(new) == 'mine\none\ntwo\nthree\n')
end

local function moved_behind_link(stage)
  local link = stage.root .. '/link.md'
  assert(vim.loop.fs_symlink(stage.file, link))
  local daemon, editor, presenter = stage:presented({ arguments = { link } })
  assert(editor:lua('return vim.api.nvim_buf_get_name(1)') == link)
  local new = stage.mount .. '/new.md'
  assert(vim.loop.fs_rename(stage.file, new))
  tells_move(daemon, presenter, 'notes.md', 'new.md')
  assert(editor:lua('return vim.api.nvim_buf_get_name(1)') == new)
  editor:change('mine')
  assert(daemon:call('save', presenter))
  assert(stages.read(new) == 'mine\none\ntwo\nthree\n')
end

return {
  { 'a clean buffer is read again in place', clean({}) },
  { 'also with noautoread', clean({ 'set noautoread' }) },
  { 'a change that Neovim notices is read without a question', noticed },
  { 'a hidden buffer is read again', hidden },
  { 'a change without a new time is seen', same_time },
  { 'a clean buffer is read again while the user types', while_typing },
  { 'a diff shows both texts', diff },
  { 'a conflict loses neither text', dirty },
  { 'a conflict ends with the next write or read', resolved },
  { 'a notice without a change is no conflict', touched },
  { 'a clean buffer follows its file', moved(false) },
  { 'unsaved text follows its file', moved(true) },
  { 'a moved buffer is written without force', written_after_move },
  { 'a conflict follows its file', moved_in_conflict(true) },
  { 'a change that is told after the move is a conflict', moved_in_conflict(false) },
  { 'a moved file whose time is another one is written without force', touched_and_moved },
  { 'a buffer follows its file within a turn', moved_in_turn },
  { 'a file is moved over an open one', moved_over_open_file },
  { 'a file is moved over one with unsaved text', moved_over_unsaved_text },
  { 'a file is moved to a name that is not UTF-8', moved_to_bytes },
  { 'a buffer behind a symbolic link follows', moved_behind_link },
}
