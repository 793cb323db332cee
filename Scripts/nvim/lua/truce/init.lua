-- SPDX-License-Identifier: Apache-2.0
-- The entry points of the plug-in: the events of Neovim, its commands, and `status()` for a status line.

local M = {}

local started = false

local function on(group, events, action)
  vim.api.nvim_create_autocmd(events, {
    group = group,
    callback = function(event)
      local works, failure = pcall(action, event)
      if not works then require('truce.notes').once('an error of the plug-in: ' .. tostring(failure)) end
    end,
  })
end

function M.start()
  if started then return end
  started = true
  local presenters = require('truce.presenters')
  local group = vim.api.nvim_create_augroup('truce', { clear = true })
  on(group, { 'BufReadPost' }, function(event) presenters.attach(event.buf) end)
  on(group, { 'BufWritePost' }, function(event)
    -- After `:write OTHER` the buffer still has its former name, so its own file was not written.
    if vim.api.nvim_buf_get_name(event.buf) == event.match then presenters.written(event.buf) end
  end)
  on(group, { 'BufFilePost' }, function(event) presenters.renamed(event.buf) end)
  on(group, { 'BufUnload', 'BufWipeout' }, function(event) presenters.unloaded(event.buf) end)
  on(group, { 'VimLeave' }, presenters.leave)
  vim.api.nvim_create_user_command('TruceStatus', function() require('truce.views').status() end, {
    desc = 'Shows the mounts, the presented files, and the programs that asked last',
  })
  vim.api.nvim_create_user_command('TruceDiff', function() require('truce.views').diff() end, {
    desc = 'Shows the text beside what the disk holds',
  })
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do presenters.attach(buffer) end
end

-- Returns a word about the current buffer, for a status line.
function M.status() return require('truce.views').word() end

return M
