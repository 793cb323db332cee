-- SPDX-License-Identifier: Apache-2.0
-- What the user can see: the word in the status line, :TruceStatus and :TruceDiff.

local notes = require('truce.notes')
local presenters = require('truce.presenters')
local text = require('truce.text')
local turns = require('truce.turns')

local M = {}

local states = {
  ready = 'connected', waiting = 'tries again', looking = 'connecting', connecting = 'connecting',
  idle = 'not connected',
}

-- Returns a word for a status line; empty for a buffer that shows no file of a mount.
function M.word()
  local document = presenters.documents()[vim.api.nvim_get_current_buf()]
  if not document then return '' end
  if document.state then return 'truce:' .. document.state end
  if turns.any(document) then return 'truce:turn' end
  return document.presenter and 'truce' or 'truce:away'
end

local function document_line(document)
  local line = '    ' .. text.shown(document.relative)
  if vim.bo[document.buffer].modified then line = line .. ' [+]' end
  if document.state then line = line .. ' [' .. document.state .. ']' end
  if turns.any(document) then line = line .. ' [in use by ' .. document.last.who .. ']' end
  if not document.presenter then line = line .. ' [not presented]' end
  return document.last_asked and line .. '  last asked ' .. document.last_asked or line
end

function M.status_lines()
  local lines = {}
  for place, link in pairs(presenters.connections()) do
    if next(link.documents) ~= nil then
      local state = states[link.state] .. (link.trouble and ' (' .. text.shown(link.trouble) .. ')' or '')
      lines[#lines + 1] = ('%s: %s'):format(text.shown(place), state)
      local presented = {}
      for document in pairs(link.documents) do presented[#presented + 1] = document_line(document) end
      table.sort(presented)
      vim.list_extend(lines, presented)
    end
  end
  if #lines == 0 then lines = { 'truce: no buffer shows a file of a mount' } end
  return vim.list_extend(lines, notes.last(10))
end

function M.status()
  vim.api.nvim_echo({ { table.concat(M.status_lines(), '\n') } }, false, {})
end

-- Shows the contents of the file beside the text of the buffer.
function M.diff()
  local buffer = vim.api.nvim_get_current_buf()
  if not presenters.documents()[buffer] then
    return notes.warn('this buffer shows no file of a mount')
  end
  local filetype = vim.bo[buffer].filetype
  local here = vim.api.nvim_get_current_win()
  vim.cmd('leftabove vertical new')
  vim.opt_local.buftype = 'nofile'
  vim.opt_local.bufhidden = 'wipe'
  vim.opt_local.swapfile = false
  local name = vim.fn.fnameescape(vim.api.nvim_buf_get_name(buffer))
  local reads, failure = pcall(vim.cmd, 'silent read ++edit ' .. name)
  if not reads then
    vim.cmd('bwipeout!')
    return notes.warn('the file cannot be read: ' .. tostring(failure))
  end
  vim.cmd('silent 1delete _')
  vim.opt_local.filetype = filetype
  vim.opt_local.modifiable = false
  vim.cmd('diffthis')
  vim.api.nvim_set_current_win(here)
  vim.cmd('diffthis')
end

return M
