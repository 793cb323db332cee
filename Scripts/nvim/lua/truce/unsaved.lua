-- SPDX-License-Identifier: Apache-2.0
-- Tells the daemon when a buffer begins and ceases to have unsaved text. If there is unsaved text, the daemon makes this Neovim
-- save before another program reads the size of the file.

local M = {}

-- Text that the plug-in would not save on request is not reported, because a reader would wait for nothing.
local function is_unsaved(document)
  return vim.api.nvim_buf_is_valid(document.buffer) and vim.bo[document.buffer].modified and document.state == nil
end

function M.look(document)
  if not document.presenter then return end
  local unsaved = is_unsaved(document)
  if unsaved == (document.told_unsaved or false) then return end
  document.told_unsaved = unsaved
  document.connection:notify('presenter/unsaved', { presenter = document.presenter, isUnsaved = unsaved })
end

-- Called after the registration, when the daemon knows nothing about unsaved text.
function M.begin(document)
  document.told_unsaved = nil
  M.look(document)
end

-- Checks the buffer after each change of its text, whatever the cause. When `is_watched` returns false, the checks end.
function M.watch(document, is_watched)
  vim.api.nvim_buf_attach(document.buffer, false, {
    on_lines = function()
      if not is_watched() then return true end
      -- Text that was reported as unsaved needs no further check at each key.
      if not document.told_unsaved then M.look(document) end
    end,
    on_reload = function() end,
  })
end

return M
