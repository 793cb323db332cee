-- SPDX-License-Identifier: Apache-2.0
-- Messages for the user, shown in such a manner that the user never has to press a key.

local text = require('truce.text')
local uv = vim.uv or vim.loop

local M = {}

local kept = 100
local log = {}
local waiting = {}
local timer
local told = {}

local function fitting(sentence)
  local space = math.max(20, vim.v.echospace)
  if vim.fn.strdisplaywidth(sentence) <= space then return sentence end
  return vim.fn.strcharpart(sentence, 0, space - 1) .. '…'
end

local function stop()
  if timer then
    timer:stop()
    timer:close()
    timer = nil
  end
end

-- Shows the next message. Two messages at once would not fit into the last line, and Neovim would wait for a key.
local function show_next()
  local mode = vim.api.nvim_get_mode()
  if mode.blocking or mode.mode:match('^[cr]') then return end
  local note = table.remove(waiting, 1)
  if #waiting == 0 then stop() end
  if not note then return end
  pcall(vim.notify, fitting(note.sentence), note.level, { title = 'Truce' })
end

local function show_soon()
  if timer then return end
  timer = uv.new_timer()
  timer:start(0, 250, vim.schedule_wrap(show_next))
end

-- Returns whether a message can be shown. If there is no line for messages, the user would have to press a key after each.
local function can_be_shown()
  return vim.o.cmdheight > 0 or not debug.getinfo(vim.notify, 'S').source:find('_editor', 1, true)
end

local function add(level, sentence, quiet)
  sentence = 'truce: ' .. text.shown(sentence)
  log[#log + 1] = os.date('%H:%M:%S ') .. sentence
  if #log > kept then table.remove(log, 1) end
  if quiet or not can_be_shown() then return end
  waiting[#waiting + 1] = { level = level, sentence = sentence }
  show_soon()
end

function M.info(sentence) add(vim.log.levels.INFO, sentence) end

function M.warn(sentence) add(vim.log.levels.WARN, sentence) end

-- Stores a message that is not shown, but listed by :TruceStatus.
function M.quiet(sentence) add(vim.log.levels.DEBUG, sentence, true) end

-- Shows a message that may occur many times, but only once in a session of Neovim.
function M.once(sentence)
  if told[sentence] then return end
  told[sentence] = true
  add(vim.log.levels.WARN, sentence)
end

-- Returns the last messages, the newest at the end.
function M.last(count)
  return vim.list_slice(log, math.max(1, #log - count + 1), #log)
end

return M
