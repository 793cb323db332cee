-- SPDX-License-Identifier: Apache-2.0
-- Finds the mount of a path, by the kernel's own table.

local M = {}

-- The table writes blanks and the like in a path as `\040`.
local function decoded(field)
  return (field:gsub('\\(%d%d%d)', function(digits) return string.char(tonumber(digits, 8) % 256) end))
end

local function parsed(line)
  local before, after = line:match('^(.-) %- (.*)$')
  if not before then return nil end
  local fields = vim.split(before, ' ', { plain = true })
  local kind, _, options = unpack(vim.split(after, ' ', { plain = true }))
  if not fields[5] then return nil end
  return {
    id = fields[1],
    -- A bind mount may show a part of the file system only.
    root = decoded(fields[4]),
    place = decoded(fields[5]),
    kind = kind,
    user = tonumber((',' .. (options or '') .. ','):match(',user_id=(%d+),')),
  }
end

local function holds(place, path)
  return place == '/' or path == place or path:sub(1, #place + 1) == place .. '/'
end

-- The mount of Truce that holds an absolute path without symbolic links; nil if another mount holds it.
function M.holding(path)
  local file = io.open(vim.g.truce_mountinfo or '/proc/self/mountinfo', 'r')
  if not file then return nil end
  local best
  for line in file:lines() do
    local mount = parsed(line)
    -- Of two mounts at one place the later is on top.
    if mount and holds(mount.place, path) and (not best or #mount.place >= #best.place) then best = mount end
  end
  file:close()
  return best and best.kind == 'fuse.truce' and best or nil
end

local function below(directory, path)
  return (path:sub(#directory + 1):gsub('^/', ''))
end

local function joined(directory, relative)
  return (directory == '/' and '' or directory) .. '/' .. relative
end

-- A path as the daemon names it: below the root of its file system, without a leading slash.
function M.relative(mount, path)
  return below('/', joined(mount.root, below(mount.place, path)))
end

-- The visible path of a daemon's path, or nil if it is not visible in this mount.
function M.absolute(mount, relative)
  local path = '/' .. relative
  return holds(mount.root, path) and joined(mount.place, below(mount.root, path)) or nil
end

return M
