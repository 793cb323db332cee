-- SPDX-License-Identifier: Apache-2.0
-- Finds the mount that contains a path, in the kernel's own table of mounts.

local M = {}

-- Returns a path without escapes. In the table, a space is `\040`, for example.
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
    -- The root of a bind mount may be a directory inside the file system.
    root = decoded(fields[4]),
    place = decoded(fields[5]),
    kind = kind,
    user = tonumber((',' .. (options or '') .. ','):match(',user_id=(%d+),')),
  }
end

local function holds(place, path)
  return place == '/' or path == place or path:sub(1, #place + 1) == place .. '/'
end

-- Returns the mount of Truce that contains an absolute path without symbolic links; nil if another mount contains it.
function M.holding(path)
  local file = io.open(vim.g.truce_mountinfo or '/proc/self/mountinfo', 'r')
  if not file then return nil end
  local best
  for line in file:lines() do
    local mount = parsed(line)
    -- If two mounts have the same path, the later mount covers the earlier mount.
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

-- Returns the name that the daemon uses for a path: below the root of its file system, without a slash at the beginning.
function M.relative(mount, path)
  return below('/', joined(mount.root, below(mount.place, path)))
end

-- Returns the absolute path for a path of the daemon; nil if this mount does not show it.
function M.absolute(mount, relative)
  local path = '/' .. relative
  return holds(mount.root, path) and joined(mount.place, below(mount.root, path)) or nil
end

return M
