-- SPDX-License-Identifier: Apache-2.0
-- The connection to the daemon of a mount. If it ends, it is made again as long as a document needs it.

local locate = require('truce.locate')
local mounts = require('truce.mounts')
local notes = require('truce.notes')
local text = require('truce.text')
local wire = require('truce.wire')
local uv = vim.uv or vim.loop

local protocol_version = 1
-- The most requests that wait for replies. The server accepts more at once.
local most_outstanding = 32
local first_pause, longest_pause = 200, 5000
-- If Neovim waits for a key, a request waits for so many milliseconds until the user presses it.
local key_grace = 300

local Connection = {}
Connection.__index = Connection

-- `owner` has the functions `registered`, `ready`, `lost`, `asked` and `told`, which presenters.lua defines.
local function new(mount, owner)
  return setmetatable({
    mount = mount, owner = owner, state = 'idle', pause = first_pause, documents = {}, presenters = {},
    generation = 0, inbox = {}, calls = {}, unsent = {}, outstanding = 0, last_id = 0,
  }, Connection)
end

function Connection:write(data)
  if not self.pipe or self.pipe:is_closing() then return end
  local generation = self.generation
  self.pipe:write(data, function(failure)
    if failure then self:fail_soon(generation, 'the daemon no longer listens') end
  end)
end

function Connection:send_next()
  while self.outstanding < most_outstanding and #self.unsent > 0 do
    local call = table.remove(self.unsent, 1)
    self.last_id = self.last_id + 1
    self.calls[self.last_id] = call.done
    self.outstanding = self.outstanding + 1
    self:write(wire.request(self.last_id, call.method, call.parameters))
  end
end

-- Sends a request. `done(result, failure)` gets one of its two arguments. It is never called if the connection ends.
function Connection:request(method, parameters, done)
  self.unsent[#self.unsent + 1] = { method = method, parameters = parameters, done = done }
  self:send_next()
end

-- Sends the daemon a notification at once, without a queue. So the daemon gets notifications and answers in the order in which
-- they were sent.
function Connection:notify(method, parameters)
  if self.state == 'ready' then self:write(wire.notification(method, parameters)) end
end

-- Answers a request, unless it was answered before. This function may also run in a fast context of Neovim.
function Connection:answer(ask, refusal, code)
  if ask.answered then return end
  ask.answered = true
  if ask.timer then
    ask.timer:stop()
    ask.timer:close()
    ask.timer = nil
  end
  if ask.generation ~= self.generation then return end
  self:write(refusal and wire.refusal(ask.id, code or -32007, refusal) or wire.consent(ask.id))
end

-- If Neovim waits for a key, it handles no message. Then the request is refused soon, so that the asking program does not wait.
function Connection:answer_for_a_blocked_editor(ask)
  if not vim.api.nvim_get_mode().blocking then return end
  ask.timer = uv.new_timer()
  ask.timer:start(key_grace, 0, function()
    self:answer(ask, 'Neovim waits for a key to be pressed')
  end)
end

-- Stores a message for `drain`. This function runs in a fast context of Neovim.
function Connection:receive(generation, message)
  local entry = { message = message, generation = generation }
  if message.method and message.id ~= nil and message.id ~= vim.NIL then
    local parameters = type(message.params) == 'table' and message.params or {}
    local allowed = type(parameters.deadline) == 'number' and parameters.deadline or 5000
    entry.ask = { id = message.id, generation = generation, deadline = uv.now() + allowed }
    self:answer_for_a_blocked_editor(entry.ask)
  end
  self.inbox[#self.inbox + 1] = entry
end

function Connection:take_answer(message)
  local done = self.calls[message.id]
  if not done then return end
  self.calls[message.id] = nil
  self.outstanding = self.outstanding - 1
  if type(message.error) == 'table' then
    done(nil, message.error)
  else
    done(type(message.result) == 'table' and message.result or {})
  end
  self:send_next()
end

function Connection:take(entry)
  local message, ask = entry.message, entry.ask
  if not message.method then return self:take_answer(message) end
  local parameters = type(message.params) == 'table' and message.params or {}
  if ask then
    self.owner.asked(self, ask, message.method, parameters)
  else
    self.owner.told(self, message.method, parameters)
  end
end

-- Handles the received messages in their order. While an action runs, Neovim may call this function again. The inner call
-- handles nothing, so that no message goes ahead of the action. Only with `within`, in a wait for the end of a turn, the inner
-- call handles messages.
function Connection:drain(within)
  if self.draining and not within then return end
  self.draining = true
  while #self.inbox > 0 do
    local entry = table.remove(self.inbox, 1)
    if entry.generation == self.generation then
      local works, failure = pcall(self.take, self, entry)
      if not works then
        notes.once('an error of the plug-in: ' .. tostring(failure))
        if entry.ask then self:answer(entry.ask, 'the plug-in failed', -32603) end
      end
    end
  end
  self.draining = within
end

function Connection:fail_soon(generation, why)
  vim.schedule(function()
    -- Messages that came before the end of the connection are still handled.
    self:drain()
    if generation == self.generation then self:fail(why) end
  end)
end

function Connection:listen(generation)
  local reader = wire.reader()
  local broken = false
  self.pipe:read_start(function(_, chunk)
    if broken then return end
    local messages, wrong
    if chunk then messages, wrong = reader.feed(chunk) end
    if not messages then
      broken = true
      return self:fail_soon(generation, 'the daemon ' .. (wrong or 'closed the connection'))
    end
    for _, message in ipairs(messages) do self:receive(generation, message) end
    if #messages > 0 then vim.schedule(function() self:drain() end) end
  end)
end

function Connection:greet()
  local client = { name = 'nvim', version = tostring(vim.version().major) .. '.' .. vim.version().minor }
  local versions = { min = protocol_version, max = protocol_version }
  self:request('initialize', { client = client, protocol = versions }, function(result, failure)
    if failure or result.protocol ~= protocol_version then
      local why = failure and tostring(failure.message) or 'it speaks another version of the protocol'
      return self:fail('the daemon refuses: ' .. text.shown(why))
    end
    self.state, self.pause, self.trouble = 'ready', first_pause, nil
    self.owner.ready(self)
  end)
end

function Connection:connect(generation, socket)
  local pipe = uv.new_pipe(false)
  self.pipe, self.state = pipe, 'connecting'
  pipe:connect(socket, function(failure)
    vim.schedule(function()
      if generation ~= self.generation then return end
      if failure then return self:fail('the daemon cannot be reached: ' .. tostring(failure)) end
      self:listen(generation)
      self:greet()
    end)
  end)
end

function Connection:open()
  if self.state ~= 'idle' and self.state ~= 'waiting' then return end
  self:stop_waiting()
  local mount = mounts.holding(self.mount.place)
  if not mount or mount.place ~= self.mount.place then return self:fail('nothing is mounted any more') end
  -- If the mount is the same, its socket is the same too.
  if mount.id ~= self.mount.id then self.socket = nil end
  self.mount, self.state = mount, 'looking'
  self.generation = self.generation + 1
  local generation = self.generation
  locate.socket(mount, self.socket, function(socket, why, hopeless)
    if generation ~= self.generation then return end
    if not socket then return self:fail(why, hopeless) end
    self.socket = socket
    self:connect(generation, socket)
  end)
end

-- Closes the connection. All presenters and turns of this connection end.
function Connection:drop()
  self:stop_waiting()
  self.generation = self.generation + 1
  if self.pipe and not self.pipe:is_closing() then self.pipe:close() end
  self.pipe, self.state = nil, 'idle'
  self.inbox, self.calls, self.unsent, self.outstanding = {}, {}, {}, 0
  self.owner.lost(self)
end

function Connection:fail(why, hopeless)
  local was_ready = self.state == 'ready'
  self:drop()
  self.trouble = why
  local sentence = ('%s (%s)'):format(why, text.shown(self.mount.place))
  if hopeless then return notes.once(sentence) end
  if was_ready then notes.quiet(sentence) else notes.once(sentence) end
  if next(self.documents) == nil then return end
  self.state = 'waiting'
  self.timer = uv.new_timer()
  self.timer:start(self.pause, 0, vim.schedule_wrap(function() self:open() end))
  self.pause = math.min(self.pause * 2, longest_pause)
end

function Connection:stop_waiting()
  if not self.timer then return end
  self.timer:stop()
  self.timer:close()
  self.timer = nil
end

function Connection:add(document)
  self.documents[document] = true
  if self.state == 'ready' then self.owner.registered(self, document) else self:open() end
end

function Connection:remove(document)
  self.documents[document] = nil
  if next(self.documents) == nil then
    self:drop()
    self.pause = first_pause
  end
end

return { new = new }
