-- SPDX-License-Identifier: Apache-2.0
-- Tells the daemon when a buffer begins and ceases to hold unsaved text. Then a program that reads the size of the
-- file has it saved first.

local M = {}

-- Text that would not be saved on request is not reported: a reader would wait in vain.
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

-- The daemon knows of no unsaved text yet.
function M.begin(document)
  document.told_unsaved = nil
  M.look(document)
end

-- Called for each change of the text, whatever its cause. `is_watched` says whether that still matters.
function M.watch(document, is_watched)
  vim.api.nvim_buf_attach(document.buffer, false, {
    on_lines = function()
      if not is_watched() then return true end
      -- Reported text needs no second check at each key.
      if not document.told_unsaved then M.look(document) end
    end,
    on_reload = function() end,
  })
end

return M
