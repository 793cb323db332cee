-- SPDX-License-Identifier: Apache-2.0
-- Functions for bytes and names: UTF-8, base64, and the printable form of a name.

local M = {}

local alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

local values = {}
for index = 1, #alphabet do values[alphabet:byte(index)] = index - 1 end

function M.base64(bytes)
  local encoded = bytes:gsub('..?.?', function(group)
    local a, b, c = group:byte(1, 3)
    local number = a * 65536 + (b or 0) * 256 + (c or 0)
    local letters = ''
    for position = 0, #group do
      local index = math.floor(number / 64 ^ (3 - position)) % 64 + 1
      letters = letters .. alphabet:sub(index, index)
    end
    return letters .. ('='):rep(3 - #group)
  end)
  return encoded
end

-- Returns the bytes; nil if the text is not base64.
function M.from_base64(text)
  local letters, padding = text:match('^([%w+/]*)(=?=?)$')
  if not letters or (#letters + #padding) % 4 ~= 0 then return nil end
  local decoded = letters:gsub('..?.?.?', function(group)
    local number = 0
    for position = 1, 4 do number = number * 64 + (values[group:byte(position) or 65]) end
    local bytes = string.char(math.floor(number / 65536), math.floor(number / 256) % 256, number % 256)
    return bytes:sub(1, #group - 1)
  end)
  return decoded
end

-- The byte sequences of well-formed UTF-8. Each pattern is a row of the table in the Unicode standard.
local sequences = {
  '^[%z\1-\127]+', '^[\194-\223][\128-\191]',
  '^\224[\160-\191][\128-\191]', '^[\225-\236][\128-\191][\128-\191]', '^\237[\128-\159][\128-\191]',
  '^[\238-\239][\128-\191][\128-\191]', '^\240[\144-\191][\128-\191][\128-\191]',
  '^[\241-\243][\128-\191][\128-\191][\128-\191]', '^\244[\128-\143][\128-\191][\128-\191]',
}

function M.is_utf8(bytes)
  local position = 1
  while position <= #bytes do
    local last
    for _, pattern in ipairs(sequences) do
      _, last = bytes:find(pattern, position)
      if last then break end
    end
    if not last then return false end
    position = last + 1
  end
  return true
end

-- Characters that control a terminal or mislead a reader, as bytes of UTF-8. They are control characters, ends of lines and
-- paragraphs (U+2028, U+2029), and characters that change the direction of text. The last are U+061C, U+200E, U+200F, U+202A to
-- U+202E, U+2066 to U+2069.
local obeyed = { '%c', '\194[\128-\159]', '\216\156', '\226\128[\142\143\168-\174]', '\226\129[\166-\169]' }

-- Returns a name in printable form. A name that another user chose must not move the cursor, look like two lines, or change the
-- direction of the text around it.
function M.shown(name)
  local text = tostring(name)
  for _, pattern in ipairs(obeyed) do text = text:gsub(pattern, '?') end
  return text
end

-- Returns the parameters of a message that name a path.
function M.path_parameters(path)
  if M.is_utf8(path) then return { path = path } end
  return { pathBytes = M.base64(path) }
end

-- Returns the path that the parameters of a message name, or nil. `pathBytes` takes precedence over `path`.
function M.path(parameters, name)
  local bytes, text = parameters[name .. 'Bytes'], parameters[name]
  if type(bytes) == 'string' then return M.from_base64(bytes) end
  return type(text) == 'string' and text or nil
end

local deeds = {
  read = 'read', updating = 'change', forMerging = 'change', forDeleting = 'delete', forMoving = 'move',
  forReplacing = 'replace',
}

-- Returns the program that caused a message, and a verb for its action.
function M.cause(cause)
  cause = type(cause) == 'table' and cause or {}
  local pid = type(cause.pid) == 'number' and cause.pid or 0
  local known = pid > 0 and type(cause.program) == 'string' and cause.program ~= ''
  return {
    who = known and ('%s (%d)'):format(M.shown(cause.program), pid) or 'an unknown program',
    deed = deeds[cause.operation] or 'use',
  }
end

return M
