-- SPDX-License-Identifier: Apache-2.0
-- The documents: one for each buffer that shows a file of a mount. This module handles the daemon's questions and notices about
-- them.

local buffers = require('truce.buffers')
local connections = require('truce.connection')
local mounts = require('truce.mounts')
local notes = require('truce.notes')
local text = require('truce.text')
local turns = require('truce.turns')
local unsaved = require('truce.unsaved')
local uv = vim.uv or vim.loop

local M = {}

local messages = {
  'relinquishToReader', 'relinquishToWriter', 'save', 'accommodateDeletion', 'reacquire', 'didChange',
  'didMove',
}

-- The milliseconds between two checks whether a deleted file is gone. A program may delete a file and make it again.
local settling = 500
-- The number of such checks after the daemon has announced a deletion.
local settling_looks = 10
-- If the text cannot be changed at present, a save is tried again after so many milliseconds, until the question's deadline.
local locked_pause = 50

-- The milliseconds for which Neovim waits until a writer's turn ends. After that, the file is read as soon as it can be opened.
local longest_open = 50

local invalid_parameters, unknown_method = -32602, -32601

local nobody = text.cause(nil)

local documents = {}
local by_place = {}
local owner = {}

function M.documents() return documents end

function M.connections() return by_place end

-- The maximum length of a name in a message, so that the rest of the message has room.
local longest_name = 40

local function shown(document)
  local name = text.shown(vim.fn.fnamemodify(document.path, ':t'))
  if vim.fn.strchars(name) <= longest_name then return name end
  return vim.fn.strcharpart(name, 0, longest_name - 1) .. '…'
end

-- MARK: The state of a buffer

local function mark(document, state)
  if document.state == state then return end
  document.state = state
  unsaved.look(document)
  if not vim.api.nvim_buf_is_valid(document.buffer) then return end
  vim.b[document.buffer].truce_state = state
  vim.b[document.buffer].truce_conflict = state == 'conflict' and true or nil
  vim.cmd('silent! redrawstatus!')
end

local function mark_conflict(document)
  if document.state == 'conflict' then return end
  mark(document, 'conflict')
  notes.warn(('%s changed %s, which has unsaved text here: nothing is lost, :TruceDiff shows both'):format(
    document.cause.who, shown(document)))
end

local function mark_deleted(document)
  if document.state == 'deleted' then return end
  mark(document, 'deleted')
  notes.warn(('%s deleted %s; its text is still here, :w makes the file anew'):format(
    document.cause.who, shown(document)))
end

-- Runs an action with a known cause, so that messages can name the cause. Without this function, the cause of a change is
-- unknown.
local function because(document, cause, action)
  local before = document.cause
  document.cause = cause
  local works, failure = pcall(action)
  document.cause = before
  if not works then error(failure, 0) end
end

-- Notes that, as far as is known, the buffer shows the contents of the file.
local function settled(document)
  document.stamp = buffers.stamp(document.path)
  document.leaving = nil
  mark(document, nil)
  unsaved.look(document)
end

-- MARK: Documents come and go

-- Neovim calls this function when a file has changed, instead of asking the user.
local function file_changed(document)
  local reason = vim.v.fcs_reason
  vim.v.fcs_choice = ''
  if reason == 'conflict' then
    -- Neovim also reports a conflict for a file that has not changed, if the file was missing for a time.
    if document.state ~= 'conflict' and buffers.same(buffers.stamp(document.path), document.stamp) then
      return mark(document, nil)
    end
    mark_conflict(document)
  elseif reason == 'deleted' then
    if not document.leaving then mark_deleted(document) end
  elseif reason ~= 'mode' then
    vim.v.fcs_choice = 'reload'
  end
end

local function watch(document)
  local function on(event, action)
    document.autocommands[#document.autocommands + 1] = vim.api.nvim_create_autocmd(event, {
      buffer = document.buffer,
      callback = function() action(document) end,
    })
  end
  on('FileChangedShell', file_changed)
  on('FileChangedRO', turns.first_change)
  on('InsertLeave', turns.apply)
  -- The event occurs when the user undoes all changes, or after `:set nomodified`.
  on('BufModifiedSet', unsaved.look)
  unsaved.watch(document, function() return documents[document.buffer] == document end)
end

local function connection(mount)
  by_place[mount.place] = by_place[mount.place] or connections.new(mount, owner)
  return by_place[mount.place]
end

local function detach(document)
  documents[document.buffer] = nil
  turns.finish_all(document)
  for _, autocommand in ipairs(document.autocommands) do pcall(vim.api.nvim_del_autocmd, autocommand) end
  mark(document, nil)
  local link = document.connection
  if document.presenter then
    link.presenters[document.presenter] = nil
    link:request('presenter/remove', { presenter = document.presenter }, function() end)
    document.presenter = nil
  end
  link:remove(document)
end

-- Returns the real path of the buffer's file; nil if the buffer shows no regular file.
local function path_of(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == '' or vim.bo[buffer].buftype ~= '' or not vim.api.nvim_buf_is_loaded(buffer) then return nil end
  local path = uv.fs_realpath(name)
  local stat = path and uv.fs_stat(path)
  return stat and stat.type == 'file' and path or nil
end

-- Presents the file of a buffer that was read from its file or written to it.
function M.attach(buffer)
  local path = path_of(buffer)
  local document = documents[buffer]
  if document and document.path == path then
    document.reads = document.reads + 1
    return settled(document)
  end
  if document then detach(document) end
  local mount = path and mounts.holding(path)
  if not mount then return end
  document = {
    buffer = buffer, path = path, relative = mounts.relative(mount, path), connection = connection(mount),
    autocommands = {}, turns = {}, lifted = 0, reads = 1, cause = nobody,
  }
  documents[buffer] = document
  watch(document)
  settled(document)
  document.connection:add(document)
end

-- Handles the end of a write. Neovim reports it after a failed write too, and then the buffer still has unsaved text.
function M.written(buffer)
  if not vim.bo[buffer].modified then M.attach(buffer) end
end

-- Handles a new name of a buffer. The buffer is presented again when it was read or written under the new name.
function M.renamed(buffer)
  local document = documents[buffer]
  if document and not document.renaming and path_of(buffer) ~= document.path then detach(document) end
end

-- Handles the unloading of a buffer, which may be loaded again at once.
function M.unloaded(buffer)
  vim.schedule(function()
    local document = documents[buffer]
    if document and not vim.api.nvim_buf_is_loaded(buffer) then detach(document) end
  end)
end

function M.leave()
  for _, link in pairs(by_place) do link:drop() end
end

-- MARK: Notices of the daemon

-- Handles a notice that the file may have other contents now.
local function changed(document)
  if not vim.api.nvim_buf_is_loaded(document.buffer) then return end
  if not vim.bo[document.buffer].modified then
    if buffers.reload(document) then
      notes.quiet(('%s changed %s: read again'):format(document.cause.who, shown(document)))
    end
    return
  end
  buffers.look(document)
  local stamp = buffers.stamp(document.path)
  if not stamp then
    if not document.leaving then mark_deleted(document) end
  elseif document.state == 'deleted' or not buffers.same(stamp, document.stamp) then
    mark_conflict(document)
  end
end

local function moved(document, parameters)
  local relative = text.path(parameters, 'newPath')
  if not relative or relative == document.relative then return end
  local old_relative = document.relative
  local path = mounts.absolute(document.connection.mount, relative)
  if not path then
    return notes.warn(('%s moved %s out of this mount'):format(document.cause.who, text.shown(old_relative)))
  end
  document.relative, document.path = relative, path
  document.renaming = true
  local why = buffers.rename(document, document.path)
  document.renaming = false
  if why then
    notes.warn(('%s moved %s, and the buffer cannot follow: %s'):format(
      document.cause.who, text.shown(old_relative), why))
  else
    local from, to = text.shown(old_relative), text.shown(relative)
    notes.info(('%s moved %s to %s'):format(document.cause.who, from, to))
  end
end

local function close(document)
  local name, who = shown(document), document.cause.who
  if not buffers.close(document) then return mark_deleted(document) end
  notes.info(('%s deleted %s: closed'):format(who, name))
end

local settle_later

-- Checks, after the daemon has announced a deletion, whether the file is gone.
local function settle(document, looks)
  uv.fs_stat(document.path, vim.schedule_wrap(function(_, stat)
    -- If a turn has not ended, its end starts the checks again.
    if documents[document.buffer] ~= document or not document.leaving or turns.any(document) then return end
    local stamp = stat and buffers.stamp(document.path)
    if stamp and buffers.same(stamp, document.stamp) and looks > 1 then
      return settle_later(document, looks - 1)
    end
    because(document, document.leaving, function()
      document.leaving = nil
      if not stamp and not vim.bo[document.buffer].modified then return close(document) end
      if not stamp then return mark_deleted(document) end
      -- The file was not deleted, or another file has its name now.
      if document.state == 'deleted' and buffers.same(stamp, document.stamp) then mark(document, nil) end
      changed(document)
    end)
  end))
end

function settle_later(document, looks)
  vim.defer_fn(function() settle(document, looks) end, settling)
end

local notices = {}

-- Opens the file on another thread, and then calls `go_on`. The open may take long, because readers wait while a program
-- writes.
local function when_readable(document, go_on)
  if document.opening then return end
  document.opening = true
  local file, is_open, is_late = nil, false, false
  local function finish()
    document.opening = nil
    if documents[document.buffer] == document then go_on() end
    -- The file stays open until now, so that no writer can begin before the buffer was read.
    if file then uv.fs_close(file) end
  end
  local late = vim.schedule_wrap(finish)
  uv.fs_open(document.path, 'r', 0, function(_, opened)
    file, is_open = opened, true
    if is_late then late() end
  end)
  vim.wait(longest_open, function() return is_open end, 1, true)
  if is_open then return finish() end
  is_late = true
end

notices['presenter/didChange'] = function(document)
  if not turns.is_written(document) then return changed(document) end
  local cause = document.cause
  when_readable(document, function()
    because(document, cause, function() changed(document) end)
  end)
end

notices['presenter/didMove'] = moved

notices['presenter/reacquire'] = function(document, parameters)
  turns.finish(document, parameters.turn)
  if document.leaving and not turns.any(document) then settle_later(document, settling_looks) end
end

-- MARK: Requests of the daemon

local requests = {}

requests['presenter/relinquishToReader'] = function(document, ask, parameters)
  turns.begin(document, parameters.turn, 'reader')
  document.connection:answer(ask)
end

requests['presenter/relinquishToWriter'] = function(document, ask, parameters)
  turns.begin(document, parameters.turn, 'writer')
  document.connection:answer(ask)
  turns.hold_typing(document, function() document.connection:drain(true) end)
end

local function conflict_with_disk(document)
  buffers.look(document)
  if document.state == 'deleted' then return 'the file was deleted, and its text is unsaved' end
  local stamp = buffers.stamp(document.path)
  if not stamp then
    mark_deleted(document)
    return 'the file was deleted, and its text is unsaved'
  end
  -- Without this mark, Neovim would ask the user about the newer file, and wait for the answer.
  if document.state ~= 'conflict' and not buffers.same(stamp, document.stamp) then mark_conflict(document) end
  return document.state == 'conflict' and 'unsaved text conflicts with a newer file' or nil
end

-- Returns whether Neovim refuses a command because it is in the middle of another action.
local function is_locked(failure)
  return failure:match('E11:') or failure:match('E523:') or failure:match('E565:') or failure:match('E788:')
end

local function save(document, ask)
  local link, cause = document.connection, ask.cause
  if ask.answered or documents[document.buffer] ~= document then return link:answer(ask) end
  if not vim.bo[document.buffer].modified then return link:answer(ask) end
  if uv.now() > ask.deadline then return link:answer(ask, 'Neovim was busy until it was too late') end
  local why = conflict_with_disk(document)
  if not why then
    why = buffers.write(document)
    unsaved.look(document)
    if why and is_locked(why) and uv.now() + locked_pause < ask.deadline then
      vim.defer_fn(function()
        because(document, cause, function() save(document, ask) end)
      end, locked_pause)
      return
    end
  end
  -- A program such as `rm` may have caused the save by a mere check of the file. So the last program for which the file was
  -- saved is stored.
  document.saved_for = not why and cause.who or nil
  link:answer(ask, why)
  local sentence = ('%s asked to %s %s: '):format(cause.who, cause.deed, shown(document))
  if why then notes.warn(sentence .. 'not saved: ' .. why) else notes.info(sentence .. 'saved') end
end

requests['presenter/save'] = save

requests['presenter/accommodateDeletion'] = function(document, ask)
  document.leaving = document.cause
  -- This program caused the last save and now deletes the file. The text counts as unsaved again, because it would otherwise be
  -- lost.
  if document.saved_for == document.cause.who then vim.bo[document.buffer].modified = true end
  if vim.bo[document.buffer].modified then
    mark(document, 'deleted')
    notes.warn(('%s deletes %s, which has unsaved text here; :w makes the file anew'):format(
      document.cause.who, shown(document)))
  end
  document.connection:answer(ask)
  settle_later(document, settling_looks)
end

-- MARK: The owner of the connections

-- Handles a question. For a presenter that was just removed, every answer means consent.
function owner.asked(link, ask, method, parameters)
  local action = requests[method]
  if not action then return link:answer(ask, 'no such method: ' .. text.shown(method), unknown_method) end
  local document = link.presenters[parameters.presenter]
  if not document or not vim.api.nvim_buf_is_loaded(document.buffer) then return link:answer(ask) end
  if parameters.turn == nil then return link:answer(ask, "no 'turn'", invalid_parameters) end
  local cause = text.cause(parameters.cause)
  document.last = cause
  document.last_asked = os.date('%H:%M:%S ') .. cause.who .. ', to ' .. cause.deed
  ask.cause = cause
  because(document, cause, function() action(document, ask, parameters) end)
end

function owner.told(link, method, parameters)
  local document = link.presenters[parameters.presenter]
  if not document or not notices[method] or parameters.turn == nil then return end
  if not vim.api.nvim_buf_is_loaded(document.buffer) then return end
  because(document, text.cause(parameters.cause), function() notices[method](document, parameters) end)
end

function owner.registered(link, document)
  local parameters = text.path_parameters(document.relative)
  parameters.messages = messages
  link:request('presenter/register', parameters, function(result, failure)
    local is_current = documents[document.buffer] == document
    if failure then
      if is_current then
        notes.once(('%s is not presented: %s'):format(shown(document), tostring(failure.message)))
      end
      return
    end
    if not is_current then
      return link:request('presenter/remove', { presenter = result.presenter }, function() end)
    end
    document.presenter = result.presenter
    link.presenters[result.presenter] = document
    unsaved.begin(document)
    -- The file may have changed before this registration, and then no notice reports the change. If the file has not changed, a
    -- document that is marked as deleted exists again.
    if not buffers.same(buffers.stamp(document.path), document.stamp) then
      changed(document)
    elseif document.state == 'deleted' and not document.leaving then
      mark(document, nil)
    end
  end)
end

function owner.ready(link)
  link.presenters = {}
  for document in pairs(link.documents) do owner.registered(link, document) end
end

function owner.lost(link)
  link.presenters = {}
  for document in pairs(link.documents) do
    document.presenter = nil
    turns.finish_all(document)
    if document.leaving then settle_later(document, settling_looks) end
  end
end

return M
