-- SPDX-License-Identifier: Apache-2.0
-- Presents the files of a Truce mount that are open in this Neovim; see `:help truce`.

if vim.g.loaded_truce or vim.fn.has('nvim-0.7') == 0 then return end
vim.g.loaded_truce = true

require('truce').start()
