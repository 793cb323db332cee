-- SPDX-License-Identifier: Apache-2.0
-- A turn is the time in which another program reads or writes the file. If it reads, the buffer cannot be written. If it
-- writes, the buffer cannot be changed either. Turns nest. The user's own settings return at the end of the last turn.

local M = {}

-- The milliseconds for which typing waits for the end of a writer's turn. Text that is typed meanwhile goes into the writer's
-- new text.
local longest_hold = 300

local function count(document)
  local readers, writers = 0, 0
  if document.lifted > 0 then return readers, writers end
  for _, kinds in pairs(document.turns) do
    for _, kind in ipairs(kinds) do
      if kind == 'writer' then writers = writers + 1 else readers = readers + 1 end
    end
  end
  return readers, writers
end

local function writing(document)
  local _, writers = count(document)
  return writers > 0
end

-- Returns whether another program that writes has a turn.
function M.is_written(document)
  for _, kinds in pairs(document.turns) do
    if vim.tbl_contains(kinds, 'writer') then return true end
  end
  return false
end

-- Returns whether any other program has a turn.
function M.any(document) return next(document.turns) ~= nil end

local function is_typed_into(document)
  local is_current = vim.api.nvim_get_current_buf() == document.buffer
  return is_current and vim.api.nvim_get_mode().mode:match('^[iR]') ~= nil
end

local function set(document, option, value)
  local options = vim.bo[document.buffer]
  if options[option] ~= value then options[option] = value end
end

-- Sets the options that the turns require. At the first turn, the user's own values are stored.
function M.apply(document)
  if not vim.api.nvim_buf_is_valid(document.buffer) then return end
  local readers, writers = count(document)
  local before = document.before
  if readers + writers > 0 and not before then
    before = { readonly = vim.bo[document.buffer].readonly, modifiable = vim.bo[document.buffer].modifiable }
    document.before = before
  end
  if not before then return end
  set(document, 'readonly', before.readonly or readers + writers > 0)
  -- If the user types into this buffer, it stays changeable. Otherwise each key would cause an error, and a key would have to
  -- be pressed at the end.
  local held = writers > 0 and not is_typed_into(document)
  set(document, 'modifiable', before.modifiable and not held)
  if readers + writers == 0 then document.before = nil end
end

-- Runs a function with the user's own options. Their values at its end are the user's new values.
function M.without(document, action)
  document.lifted = document.lifted + 1
  M.apply(document)
  local results = { pcall(action) }
  document.lifted = document.lifted - 1
  M.apply(document)
  return unpack(results)
end

function M.begin(document, turn, kind)
  local kinds = document.turns[turn] or {}
  kinds[#kinds + 1] = kind
  document.turns[turn] = kinds
  M.apply(document)
end

function M.finish(document, turn)
  local kinds = document.turns[turn]
  if not kinds then return end
  table.remove(kinds)
  if #kinds == 0 then document.turns[turn] = nil end
  M.apply(document)
end

function M.finish_all(document)
  document.turns = {}
  M.apply(document)
end

-- If the user types into this buffer, waits for the end of a writer's turn, and handles messages meanwhile. The keys pressed in
-- this time go into the writer's text. After a limited time, typing goes on. The typed text and the writer's text are then in
-- conflict, but both are preserved.
function M.hold_typing(document, handle_messages)
  if document.holds or not is_typed_into(document) then return end
  document.holds = true
  vim.wait(longest_hold, function()
    handle_messages()
    return not writing(document)
  end, 2, true)
  document.holds = false
end

-- Handles the first change of a read-only buffer. If the buffer is read-only only for a turn, there is no warning, for which
-- Neovim would wait a second.
function M.first_change(document)
  if not document.before or document.before.readonly then return end
  vim.bo[document.buffer].readonly = false
  vim.schedule(function() M.apply(document) end)
end

return M
