-- SPDX-License-Identifier: Apache-2.0
-- JSON-RPC messages, one in each line. This module also runs in a fast context, in which Neovim's own functions may not be
-- called.

local M = {}

-- The longest line in bytes, which is twice the protocol's limit for a message.
local longest = 2 * 1024 * 1024

-- Returns an ID as JSON. Neovim's JSON library would round a large number and write it with an exponent.
local function id_text(id)
  if type(id) == 'number' and id % 1 == 0 and math.abs(id) < 2 ^ 53 then return ('%.0f'):format(id) end
  return vim.json.encode(id)
end

local function with_id(id, encoded)
  return '{"id":' .. id_text(id) .. ',' .. encoded:sub(2) .. '\n'
end

function M.request(id, method, parameters)
  return with_id(id, vim.json.encode({ jsonrpc = '2.0', method = method, params = parameters }))
end

function M.notification(method, parameters)
  return vim.json.encode({ jsonrpc = '2.0', method = method, params = parameters }) .. '\n'
end

function M.consent(id)
  return with_id(id, '{"jsonrpc":"2.0","result":{}}')
end

function M.refusal(id, code, sentence)
  return with_id(id, vim.json.encode({ jsonrpc = '2.0', error = { code = code, message = sentence } }))
end

-- Returns a reader that gets lines in pieces of any length. Its `feed` returns the complete messages, or nil and the error.
function M.reader()
  local pieces, size = {}, 0
  local reader = {}

  local function line(piece)
    pieces[#pieces + 1] = piece
    local whole = table.concat(pieces)
    pieces, size = {}, 0
    return whole
  end

  function reader.feed(chunk)
    local messages, from = {}, 1
    while true do
      local newline = chunk:find('\n', from, true)
      if not newline then break end
      local whole = line(chunk:sub(from, newline - 1))
      from = newline + 1
      if whole:find('%S') then
        local decodes, message = pcall(vim.json.decode, whole)
        if not decodes or type(message) ~= 'table' then return nil, 'sent what is no message' end
        messages[#messages + 1] = message
      end
    end
    pieces[#pieces + 1] = chunk:sub(from)
    size = size + #chunk - from + 1
    if size > longest then return nil, 'sent a message without an end' end
    return messages
  end

  return reader
end

return M
