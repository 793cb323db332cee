-- SPDX-License-Identifier: Apache-2.0
-- Finds the control socket of a mount, and decides whether the plug-in trusts it.

local text = require('truce.text')
local uv = vim.uv or vim.loop

local M = {}

-- Lua cannot see which process listens at a socket, but it can see the socket's owner. No other user can have put a socket of
-- this owner into a directory of root or of the user.
local function trusted(socket, mount, done)
  uv.fs_stat(socket, vim.schedule_wrap(function(_, stat)
    if not stat then return done(nil, ("no daemon: there is no socket '%s'"):format(text.shown(socket))) end
    if stat.type ~= 'socket' then return done(nil, ("no socket: '%s'"):format(text.shown(socket))) end
    local own = uv.getuid()
    if stat.uid ~= 0 and stat.uid ~= own and not (own == 0 and stat.uid == mount.user) then
      local sentence = "user %d, which is neither you nor root, owns the socket '%s': it is not trusted"
      return done(nil, sentence:format(stat.uid, text.shown(socket)))
    end
    done(socket)
  end))
end

local function command()
  local configured = vim.g.truce_command or 'truce'
  return type(configured) == 'table' and vim.deepcopy(configured) or { configured }
end

-- Finds the socket and calls `done` with its path, or with nil and a sentence. The third argument of `done` is true if another
-- try makes no sense before the settings change. `known` is the path from an earlier call, if any.
function M.socket(mount, known, done)
  local override = os.getenv('TRUCE_SOCKET')
  if override and override ~= '' then known = override end
  if known then return trusted(known, mount, done) end
  local output, errors = {}, {}
  local words = command()
  local name = words[1]
  vim.list_extend(words, { 'socket', mount.place })
  local starts, job = pcall(vim.fn.jobstart, words, {
    cwd = '/',
    stdin = 'null',
    stdout_buffered = true,
    stderr_buffered = true,
    on_stdout = function(_, lines) output = lines end,
    on_stderr = function(_, lines) errors = lines end,
    on_exit = function(_, status)
      if status == 0 and output[1] and output[1] ~= '' then return trusted(output[1], mount, done) end
      local why = errors[1] and errors[1] ~= '' and errors[1] or ('exit status %d'):format(status)
      done(nil, ("'%s socket' failed: %s"):format(text.shown(name), text.shown(why)))
    end,
  })
  if not starts or job <= 0 then
    local sentence = "the command '%s' was not found; set g:truce_command to its path"
    done(nil, sentence:format(text.shown(name)), true)
  end
end

return M
