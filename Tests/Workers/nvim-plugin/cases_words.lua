-- SPDX-License-Identifier: Apache-2.0
-- The parts of the plug-in that work without an editor: names, the table of mounts, and lines of JSON.

local mounts = require('truce.mounts')
local text = require('truce.text')
local wire = require('truce.wire')

local function same(found, expected)
  if vim.deep_equal(found, expected) then return end
  error(('%s instead of %s'):format(vim.inspect(found), vim.inspect(expected)), 2)
end

local function base64()
  for bytes, encoded in pairs({
    [''] = '', f = 'Zg==', fo = 'Zm8=', foo = 'Zm9v', foob = 'Zm9vYg==', ['\255\0\254'] = '/wD+',
    ['\251\240'] = '+/A=',
  }) do
    same(text.base64(bytes), encoded)
    same(text.from_base64(encoded), bytes)
  end
  for _, wrong in ipairs({ 'Zg', 'Zg=', 'Z===', '####', 'Zm9v\n' }) do same(text.from_base64(wrong), nil) end
  local all = {}
  for byte = 0, 255 do all[#all + 1] = string.char(byte) end
  all = table.concat(all)
  same(text.from_base64(text.base64(all)), all)
end

local function utf8()
  for _, valid in ipairs({ '', 'a', 'ä', '€', '😀', 'a\0b', 'grün/€.md' }) do
    assert(text.is_utf8(valid), valid)
  end
  local wrong = {
    '\255', 'a\195', '\192\128', '\237\160\128', '\244\144\128\128', '\224\128\128', '\128',
  }
  for _, invalid in ipairs(wrong) do
    assert(not text.is_utf8(invalid), text.base64(invalid))
  end
  same(text.path_parameters('a€'), { path = 'a€' })
  same(text.path_parameters('a\255'), { pathBytes = 'Yf8=' })
  same(text.path({ newPath = 'x', newPathBytes = 'Yf8=' }, 'newPath'), 'a\255')
  same(text.path({ newPath = 'x', newPathBytes = vim.NIL }, 'newPath'), 'x')
end

local function causes()
  local cause = text.cause({ pid = 7, program = 'a\27[2J', operation = 'updating' })
  same(cause, { who = 'a?[2J (7)', deed = 'change' })
  -- The end of a line, an escape character, marks that change the direction of text, and ordinary letters with codes close to
  -- theirs.
  same(text.shown('a\u{2028}b\u{9b}c\u{202e}d\u{2066}e\u{200f}f\u{61c}g\n'), 'a?b?c?d?e?f?g?')
  same(text.shown('Ü\u{200d}\u{2027}\u{202f}\u{2065}\u{61b}€'), 'Ü\u{200d}\u{2027}\u{202f}\u{2065}\u{61b}€')
  same(text.cause({ pid = 0, program = 'cat', operation = 'else' }), { who = 'an unknown program', deed = 'use' })
  same(text.cause(vim.NIL).who, 'an unknown program')
end

local function table_of_mounts(stage)
  require('stage').write(stage.table, table.concat({
    '20 1 8:1 / / rw - ext4 /dev/sda1 rw',
    '30 20 0:50 / /a\\040b rw shared:1 master:3 - fuse.truce /source rw,user_id=1000,group_id=0',
    '31 30 0:51 / /a\\040b/inner rw - tmpfs tmpfs rw',
    '32 20 0:52 / /over rw - ext4 /dev/sdb1 rw',
    '33 32 0:53 / /over rw - fuse.truce /over rw',
    '34 20 0:54 / /tab\\011\\134 rw - fuse.truce /x rw',
    '35 20 0:50 /deep\\040er /part rw - fuse.truce /source rw',
    'nonsense', '',
  }, '\n'))
  vim.g.truce_mountinfo = stage.table
  local mount = mounts.holding('/a b/c/d')
  same({ mount.place, mount.id, mount.user }, { '/a b', '30', 1000 })
  same(mounts.relative(mount, '/a b/c/d'), 'c/d')
  same(mounts.holding('/a bc'), nil)
  same(mounts.holding('/a b/inner/x'), nil)
  same(mounts.holding('/a b/innermost').id, '30')
  same(mounts.holding('/over/x').id, '33')
  same(mounts.holding('/tab\t\\/x').id, '34')
  same(mounts.holding('/etc/x'), nil)
  same(mounts.absolute(mount, 'c/d'), '/a b/c/d')
  same(mounts.absolute({ root = '/', place = '/' }, 'x'), '/x')
  local part = mounts.holding('/part/x')
  same(mounts.relative(part, '/part/x'), 'deep er/x')
  same(mounts.absolute(part, 'deep er/y/z'), '/part/y/z')
  same(mounts.absolute(part, 'deep/y'), nil)
  vim.g.truce_mountinfo = nil
end

local function lines()
  local reader = wire.reader()
  same(reader.feed('{"a":"'), {})
  same(reader.feed('\226\130'), {})
  same(reader.feed('\172"}\n\n{"b":null}\n{"c'), { { a = '€' }, { b = vim.NIL } })
  same(reader.feed('":1}\n'), { { c = 1 } })
  local messages, why = reader.feed('nonsense\n')
  same({ messages, why }, { nil, 'sent what is no message' })
  assert(not wire.reader().feed('7\n'))
  assert(not wire.reader().feed(('x'):rep(3 * 1024 * 1024)))
  same(wire.consent(9007199254740991), '{"id":9007199254740991,"jsonrpc":"2.0","result":{}}\n')
  same(vim.json.decode(wire.refusal('a"b', -1, 'no\nway')).error, { code = -1, message = 'no\nway' })
  assert(not wire.refusal(1, -1, 'no\nway'):find('\n.'))
end

return {
  { 'base64 is that of the standard', base64 },
  { 'a name that is not UTF-8 goes as bytes', utf8 },
  { 'a program cannot write on the screen by its name', causes },
  { 'the table of mounts is read as the kernel writes it', table_of_mounts },
  { 'lines come in any pieces', lines },
}
