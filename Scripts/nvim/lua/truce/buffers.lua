-- SPDX-License-Identifier: Apache-2.0
-- Actions on a buffer: compare it with the disk, read it again, write it, rename it, close it.

local text = require('truce.text')
local turns = require('truce.turns')
local uv = vim.uv or vim.loop

local M = {}

-- The milliseconds after which a question of Neovim that the user does not expect is declined.
local question_grace = 50
-- If the text has more lines than this number, cursors and marks are not moved along with their lines.
local most_lines_compared = 50000

local function quietly(buffer, command)
  return pcall(vim.api.nvim_buf_call, buffer, function() vim.cmd(command) end)
end

-- Returns values that differ if the contents of a file differ, as far as this can be seen without reading the file.
function M.stamp(path)
  local stat = uv.fs_stat(path)
  if not stat or stat.type ~= 'file' then return nil end
  return { seconds = stat.mtime.sec, nanoseconds = stat.mtime.nsec, size = stat.size }
end

function M.same(one, other)
  return one ~= nil and other ~= nil and one.seconds == other.seconds and one.nanoseconds == other.nanoseconds
    and one.size == other.size
end

local function bytes_of(document)
  local options = vim.bo[document.buffer]
  local ends = ({ unix = '\n', dos = '\r\n' })[options.fileformat]
  local is_plain = options.fileencoding == '' or options.fileencoding == 'utf-8'
  if not ends or not is_plain or options.bomb then return nil end
  local lines = vim.api.nvim_buf_get_lines(document.buffer, 0, -1, false)
  if #lines == 1 and lines[1] == '' then return '', '\n' end
  -- Neovim stores a zero byte as a line feed inside a line.
  for index, line in ipairs(lines) do lines[index] = line:gsub('\n', '\0') end
  local bytes = table.concat(lines, ends)
  return options.endofline and bytes .. ends or bytes
end

-- Returns whether the buffer has the contents of the file; false if that is unknown.
local function shows_the_file(document)
  local expected, alternative = bytes_of(document)
  local file = expected and io.open(document.path, 'rb')
  if not file then return false end
  local bytes = file:read('*a')
  file:close()
  return bytes == expected or (alternative ~= nil and bytes == alternative)
end

-- Makes Neovim compare the buffer with the file, as Neovim also does by itself. If the file has changed and the buffer has no
-- unsaved text, Neovim reads the file in a manner that preserves marks and undo. If the buffer has unsaved text, Neovim fires
-- `FileChangedShell` (presenters.lua).
function M.look(document)
  turns.without(document, function() vim.cmd('silent checktime ' .. document.buffer) end)
end

local function lines_for_comparison(buffer)
  if vim.api.nvim_buf_line_count(buffer) > most_lines_compared then return nil end
  return vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
end

-- Returns a function that maps the number of a line in the old text to the number of the same line in the new text.
local function line_mapping(old, new)
  local function joined(lines) return table.concat(lines, '\n') .. '\n' end
  local compare = vim.text and vim.text.diff or vim.diff
  local hunks = compare(joined(old), joined(new), { result_type = 'indices' })
  return function(line)
    local shift = 0
    for _, hunk in ipairs(hunks) do
      local from, count, to, new_count = unpack(hunk)
      -- For an insertion, the comparison reports the line before the inserted lines.
      if count == 0 then from = from + 1 end
      if new_count == 0 then to = to + 1 end
      if line < from then break end
      if line < from + count then
        return math.max(1, to + math.min(line - from, math.max(new_count - 1, 0)))
      end
      shift = (to + new_count) - (from + count)
    end
    return math.max(1, line + shift)
  end
end

local function views(buffer)
  local found = {}
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    found[window] = vim.api.nvim_win_call(window, vim.fn.winsaveview)
  end
  return found
end

local function marks(buffer)
  local found = {}
  for byte = ('a'):byte(), ('z'):byte() do
    local name = string.char(byte)
    local position = vim.api.nvim_buf_get_mark(buffer, name)
    if position[1] > 0 then found[name] = position end
  end
  return found
end

-- Moves cursors and marks along with their lines, if lines were added or removed above them.
local function follow(buffer, old, old_views, old_marks)
  local new = old and lines_for_comparison(buffer)
  local moved = new and line_mapping(old, new) or function(line) return line end
  local last = vim.api.nvim_buf_line_count(buffer)
  for window, view in pairs(old_views) do
    if vim.api.nvim_win_is_valid(window) and vim.api.nvim_win_get_buf(window) == buffer then
      local above = view.lnum - view.topline
      view.lnum = math.min(moved(view.lnum), last)
      view.topline = math.max(1, view.lnum - above)
      vim.api.nvim_win_call(window, function() vim.fn.winrestview(view) end)
    end
  end
  if not new then return end
  for name, position in pairs(old_marks) do
    pcall(vim.api.nvim_buf_set_mark, buffer, name, math.min(moved(position[1]), last), position[2], {})
  end
end

-- Makes `u` undo the text that is typed from now on separately from the text before.
local function separate_undo(buffer)
  if vim.api.nvim_get_current_buf() ~= buffer or vim.api.nvim_get_mode().mode ~= 'i' then return end
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes('<C-g>u', true, false, true), 'ni', false)
end

-- Makes a buffer without unsaved text show the present contents of the file. Returns true if the file was read again.
function M.reload(document)
  local buffer = document.buffer
  local old, old_views, old_marks = lines_for_comparison(buffer), views(buffer), marks(buffer)
  local reads = document.reads
  M.look(document)
  -- The file's time may be the same although the file has changed, because a copying program may have restored the time.
  if document.reads == reads and uv.fs_stat(document.path) and not vim.bo[buffer].modified
    and not shows_the_file(document) then
    turns.without(document, function()
      local readonly = vim.bo[buffer].readonly
      quietly(buffer, 'silent keepalt keepjumps lockmarks edit!')
      vim.bo[buffer].readonly = readonly
    end)
  end
  if document.reads == reads then return false end
  follow(buffer, old, old_views, old_marks)
  separate_undo(buffer)
  return true
end

local function sentence_of(failure)
  failure = vim.split(tostring(failure), '\n')[1]
  return text.shown(failure:match('Vim%b():(.*)') or failure:match('Vim:(.*)') or failure)
end

-- Writes the buffer. Unlike `:update`, this is allowed from the command-line window.
local write = [[
  try
    silent keepalt lockmarks write
  catch
    let g:truce_failure = v:exception
  endtry
]]

-- Runs an action and declines all questions that Neovim asks the user meanwhile, because the user does not expect a question.
local function unasked(action)
  local confirm = vim.o.confirm
  -- With this option, Neovim would ask a question where it would otherwise refuse.
  vim.o.confirm = false
  local timer = uv.new_timer()
  local answers = 0
  timer:start(question_grace, question_grace, function()
    if not vim.api.nvim_get_mode().blocking then return end
    answers = answers + 1
    vim.api.nvim_input(answers == 1 and 'n' or '<Esc>')
  end)
  local results = { action() }
  timer:stop()
  timer:close()
  vim.o.confirm = confirm
  -- A question fills more than one line. Without this command, Neovim would wait until the user has read it.
  if answers > 0 then vim.cmd('redraw') end
  return unpack(results)
end

-- Writes the buffer. Returns nil, or a sentence about the failure. Autocommands run as for `:w`.
function M.write(document)
  local _, works, failure = unasked(function()
    return turns.without(document, function() return quietly(document.buffer, write) end)
  end)
  if works then
    failure = vim.g.truce_failure
    vim.g.truce_failure = nil
  end
  if failure then return sentence_of(failure) end
  if vim.api.nvim_buf_is_valid(document.buffer) and vim.bo[document.buffer].modified then
    return 'Neovim had a question, or an autocommand did not write the buffer'
  end
end

-- Returns whether an autocommand of another plug-in writes this file instead of Neovim.
local function is_written_by_others(name)
  for _, autocommand in ipairs(vim.api.nvim_get_autocmds({ event = 'BufWriteCmd' })) do
    if not autocommand.buflocal then
      local pattern = vim.regex(vim.fn.glob2regpat(autocommand.pattern))
      if pattern:match_str(name) or pattern:match_str(vim.fn.fnamemodify(name, ':t')) then return true end
    end
  end
  return false
end

-- Makes `:w` work without `!` after a move of the file. To Neovim, a buffer with a new name has never been read from its file.
-- So `:w` would ask for `!` because the file exists. Neovim has no function for a move. But a write by an autocommand also ends
-- this state, and this autocommand writes nothing.
local function settle_name(document)
  if is_written_by_others(vim.api.nvim_buf_get_name(document.buffer)) then return end
  local autocommand = vim.api.nvim_create_autocmd('BufWriteCmd', {
    buffer = document.buffer,
    callback = function() end,
  })
  quietly(document.buffer, 'silent keepalt lockmarks write!')
  pcall(vim.api.nvim_del_autocmd, autocommand)
end

local function find(name)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_get_name(buffer) == name then return buffer end
  end
end

-- Takes a name away from any other buffer. Returns false if a buffer with unsaved text has the name.
local function take_name(name, buffer)
  local other = find(name)
  if not other or other == buffer then return true end
  if vim.api.nvim_buf_is_loaded(other) and vim.bo[other].modified then return false end
  for _, window in ipairs(vim.fn.win_findbuf(other)) do vim.api.nvim_win_set_buf(window, buffer) end
  return (pcall(vim.api.nvim_buf_delete, other, { force = true }))
end

-- Gives the buffer the new name of its moved file, and changes nothing else. Returns nil, or a sentence about the failure.
function M.rename(document, name)
  local buffer = document.buffer
  local old = vim.api.nvim_buf_get_name(buffer)
  if old == name then return nil end
  if not take_name(name, buffer) then return 'another buffer with unsaved text has that name' end
  local works, failure = turns.without(document, function()
    vim.g.truce_name = name
    vim.cmd(('silent keepalt call nvim_buf_set_name(%d, g:truce_name)'):format(buffer))
    vim.g.truce_name = nil
    -- After `settle_name`, Neovim treats the present file as the file that the buffer was read from. If that is wrong, the name
    -- is not settled: Neovim's question before it overwrites the file is then the only protection.
    local is_read = M.same(M.stamp(name), document.stamp)
      or (not vim.bo[buffer].modified and shows_the_file(document))
    if document.state == nil and is_read then settle_name(document) end
  end)
  if not works then return sentence_of(failure) end
  -- Neovim has made a new buffer that has the old name.
  local left = find(old)
  if left and left ~= buffer and not vim.api.nvim_buf_is_loaded(left) then
    pcall(vim.api.nvim_buf_delete, left, { force = true })
  end
end

local function successor(buffer)
  local alternate = vim.fn.bufnr('#')
  if alternate > 0 and alternate ~= buffer and vim.api.nvim_buf_is_loaded(alternate)
    and vim.bo[alternate].buflisted then
    return alternate
  end
  return vim.api.nvim_create_buf(true, false)
end

-- Closes the buffer, but neither closes a window nor ends Neovim. Returns false if the buffer cannot be closed now, for example
-- while the user types into it. The rest of the typing would go into another text.
function M.close(document)
  local buffer, other = document.buffer, nil
  local is_typing = vim.api.nvim_get_mode().mode:match('^[iRsS]')
  if is_typing and vim.api.nvim_get_current_buf() == buffer then return false end
  for _, window in ipairs(vim.fn.win_findbuf(buffer)) do
    other = other or successor(buffer)
    if not pcall(vim.api.nvim_win_set_buf, window, other) then return false end
  end
  return (pcall(vim.cmd, 'silent bdelete ' .. buffer))
end

return M
