# SPDX-License-Identifier: Apache-2.0
# Editors, each with all its methods of saving. See registry.sh.

# vim_saves OPTION... saves with vim and these options, but without a viminfo file, as for a user without settings.
vim_saves() {
    vim -N -u NONE -i NONE -es -c "set ${*:-nocompatible}" -c "%s/$old/$new/" -c wq "$document"
}

idiom vim vim 'vim'
save_vim() { vim_saves; }

idiom vim-copy vim 'vim, backupcopy=yes'
save_vim-copy() { vim_saves backupcopy=yes; }

idiom vim-rename vim 'vim, backupcopy=no'
save_vim-rename() { vim_saves backupcopy=no; }

idiom vim-backup vim 'vim, backup'
save_vim-backup() { vim_saves backup backupcopy=no; }

idiom vim-backup-copy vim 'vim, backup, backupcopy=yes'
save_vim-backup-copy() { vim_saves backup backupcopy=yes; }

idiom vim-backupext vim 'vim, backup, backupext=.bak'
save_vim-backupext() { vim_saves backup backupext=.bak; }

idiom vim-patchmode vim 'vim, patchmode=.orig'
save_vim-patchmode() { vim_saves patchmode=.orig; }

idiom vim-nowritebackup vim 'vim, nowritebackup'
save_vim-nowritebackup() { vim_saves nowritebackup; }

idiom vim-backupdir vim 'vim, backup in another directory'
save_vim-backupdir() { vim_saves backup backupcopy=no "backupdir=$PWD/.."; }

idiom vim-undofile vim 'vim, undofile'
save_vim-undofile() { vim_saves undofile; }

idiom vim-terminal vim 'vim at a terminal'
save_vim-terminal() {
    keys "vim -N -u NONE -i NONE '$document'" ":%s/$old/$new/\r" ':wq\r'
}

idiom nvim nvim 'nvim'
save_nvim() { nvim --clean -es -c "%s/$old/$new/" -c wq "$document"; }

idiom nvim-copy nvim 'nvim, backupcopy=yes'
save_nvim-copy() { nvim --clean -es -c 'set backupcopy=yes' -c "%s/$old/$new/" -c wq "$document"; }

idiom nvim-backup nvim 'nvim, backup'
save_nvim-backup() {
    nvim --clean -es -c 'set backup backupdir=.' -c "%s/$old/$new/" -c wq "$document"
}

# emacs_saves LISP saves with Emacs and these settings.
emacs_saves() {
    emacs --quick --batch --eval "(progn (setq create-lockfiles t) $1 (find-file \"$document\")
        (while (search-forward \"$old\" nil t) (replace-match \"$new\")) (save-buffer))"
}

idiom emacs emacs 'emacs'
save_emacs() { emacs_saves '(setq make-backup-files t)'; }

idiom emacs-copying emacs 'emacs, backup-by-copying'
save_emacs-copying() { emacs_saves '(setq make-backup-files t backup-by-copying t)'; }

idiom emacs-no-backup emacs 'emacs, no backup'
save_emacs-no-backup() { emacs_saves '(setq make-backup-files nil)'; }

idiom emacs-precious emacs 'emacs, file-precious-flag'
save_emacs-precious() { emacs_saves '(setq-default file-precious-flag t)'; }

idiom emacs-numbered emacs 'emacs, numbered backups'
save_emacs-numbered() { emacs_saves '(setq make-backup-files t version-control t)'; }

idiom nano nano 'nano'
save_nano() { keys "nano --ignorercfiles '$document'" "$new " '\x0f' '\r' '\x18'; }

idiom nano-B nano 'nano -B'
save_nano-B() { keys "nano --ignorercfiles --backup '$document'" "$new " '\x0f' '\r' '\x18'; }

idiom ed ed 'ed'
save_ed() { printf '%s\n' "g/$old/s//$new/" w q | ed --silent "$document"; }

idiom ex ex 'ex'
save_ex() { printf '%s\n' "%s/$old/$new/" wq | ex -s "$document"; }

idiom joe joe 'joe'
save_joe() { keys "joe '$document'" "$new " '\x0bx'; }

idiom joe-nobackups joe 'joe -nobackups'
save_joe-nobackups() { keys "joe -nobackups '$document'" "$new " '\x0bx'; }

idiom jed jed 'jed'
save_jed() { keys "jed '$document'" "$new " '\x18\x13' '\x18\x03'; }

idiom mg mg 'mg'
save_mg() { keys "mg '$document'" "$new " '\x18\x13' '\x18\x03'; }

idiom mg-n mg 'mg without a backup'
save_mg-n() {
    printf 'make-backup-files\n' >"$HOME/.mg"
    keys "mg '$document'" "$new " '\x18\x13' '\x18\x03'
}

idiom ne ne 'ne'
save_ne() { keys "ne --no-config '$document'" "$new " '\x13' '\x11'; }

idiom micro micro 'micro' asks=2 \
    reason='opens the document to write when it begins, and again to save'
save_micro() { keys "micro '$document'" "$new " '\x13' '\x11'; }

idiom kakoune kak 'kakoune'
save_kakoune() { kak -n -ui dummy -e "execute-keys '%s$old<ret>c$new<esc>'; write-quit" "$document"; }

idiom kakoune-replace kak 'kakoune, writemethod=replace'
save_kakoune-replace() {
    kak -n -ui dummy -e "set-option global writemethod replace; execute-keys '%s$old<ret>c$new<esc>'; write-quit" \
        "$document"
}

idiom vis vis 'vis'
save_vis() { keys "vis '$document'" "ggi$new \x1b" ':wq\r'; }

idiom nvi nvi 'nvi'
save_nvi() { printf '%s\n' "%s/$old/$new/" wq | nvi -e -s "$document"; }

idiom zile zile 'zile'
save_zile() { keys "zile --no-init-file '$document'" "$new " '\x18\x13' '\x18\x03'; }

idiom le le 'le' asks=2 \
    known='*told 2 times that the document was changed' \
    reason='opens the document when it begins, and again to save: the folder is told of each close'
save_le() { keys "le '$document'" "$new " '\x1bOQ' '\x18\x03'; }

idiom dte dte 'dte'
save_dte() { keys "dte -R '$document'" "$new " '\x13' '\x11'; }

idiom levee levee 'levee'
save_levee() { keys "levee '$document'" ":s/first/$new/\r" ':wq\r'; }

idiom busybox-vi busybox 'busybox vi'
save_busybox-vi() { keys "busybox vi '$document'" "i$new \x1b" ':wq\r'; }
