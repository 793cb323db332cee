-- SPDX-License-Identifier: Apache-2.0
-- Tests the Neovim plug-in against a fake daemon:
--
--     nvim --headless --clean -u NONE -S Tests/Workers/nvim-plugin/run.lua
--
-- Prints `ok NAME` or `not ok NAME: WHY` for each test, and fails if a test has failed. If TRUCE_TEST is set in the
-- environment, only the tests with this word in their names run.

local here = vim.fn.fnamemodify(debug.getinfo(1, 'S').source:sub(2), ':p:h')
local repository = vim.fn.fnamemodify(here, ':h:h:h')
package.path = ('%s/?.lua;%s/Scripts/nvim/lua/?.lua;'):format(here, repository) .. package.path
vim.opt.runtimepath:append(repository .. '/Scripts/nvim')

local longest = 240000

local function say(line)
  io.stdout:write(line .. '\n')
  io.stdout:flush()
end

local function finish(status)
  io.stdout:flush()
  -- `:cquit` does not wait for the children of this Neovim, and ends them.
  vim.cmd(('silent! cquit %d'):format(status))
end

local guard = vim.loop.new_timer()
guard:start(longest, 0, function()
  say(('not ok the run: it took more than %d s'):format(longest / 1000))
  os.exit(1)
end)

local function run(name, test)
  local stage = require('stage').new()
  local passes, why = xpcall(function()
    test(stage)
    stage:check()
  end, function(failure)
    -- The line of the test that failed.
    local line = debug.traceback():match('/(cases_%w+.lua:%d+)')
    return ('%s (%s)'):format(failure, line)
  end)
  stage:clear()
  say(passes and 'ok ' .. name or ('not ok %s: %s'):format(name, why))
  return passes
end

local wanted = os.getenv('TRUCE_TEST') or ''
local ran, failed = 0, 0
for _, suite in ipairs({ 'words', 'asking', 'turns', 'telling', 'links' }) do
  for _, case in ipairs(require('cases_' .. suite)) do
    local name, test = unpack(case)
    if name:find(wanted, 1, true) then
      ran = ran + 1
      if not run(name, test) then failed = failed + 1 end
    end
  end
end
say(('%d tests, %d failed'):format(ran, failed))
finish((failed > 0 or ran == 0) and 1 or 0)
