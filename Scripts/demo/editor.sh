# SPDX-License-Identifier: Apache-2.0
# A headless Neovim with the plug-in, driven over its own socket, as by a second Neovim. Needs stage.sh.
#
# Nothing in it saves by itself: it has no configuration, no swap file and no timer.

editor=
editor_job=
# Events after which a configuration may have Neovim save.
saving_events="'CursorHold', 'CursorHoldI', 'TextChanged', 'TextChangedI', 'InsertLeave', 'BufLeave', 'FocusLost'"

# nvim_here ARGUMENT... leaves its log and its temporary files in the lab. It runs as the user, also on root's mount, since its
# files must be the user's; and sudo would stop with it.
nvim_here() {
    exec env TMPDIR="$lab/tmp" NVIM_LOG_FILE="$lab/tmp/nvim.log" nvim --clean "$@"
}

# open_editor FILE [BACKUPCOPY] sets `editor`, the process, once Neovim presents the file.
open_editor() {
    in_lab rm -f "$lab/tmp/editor"
    (cd "$lab/tmp" && nvim_here --headless --listen "$lab/tmp/editor" \
        --cmd "let g:truce_command = '$lab_truce'" \
        --cmd "set noswapfile backupcopy=${2:-auto} runtimepath^=${scripts// /\\ }/nvim" "$1") \
        </dev/null >/dev/null 2>&1 &
    editor_job=$!
    eventually 20 is_presented "$1" || refuse "Neovim does not present $1."
    editor=$(editor_value "getpid()")
}

is_presented() {
    contains "$("${truce[@]}" why "$1")" "nvim (pid *) presents '"
}

# editor_value EXPRESSION prints the value of an expression of Vim script. Neovim 0.7 prints it on standard error.
editor_value() {
    (nvim_here --headless --server "$lab/tmp/editor" --remote-expr "$1" 2>&1)
}

# type_text 'LINE;LINE' replaces the text, without saving.
type_text() {
    editor_value "nvim_buf_set_lines(1, 0, -1, v:true, split('$1', ';'))" >/dev/null
}

editor_text() {
    editor_value "join(nvim_buf_get_lines(1, 0, -1, v:true), ' | ')"
}

has_text() {
    is "$(editor_text)" "$1"
}

has_unsaved_text() {
    is "$(editor_value "getbufvar(1, '&modified')")" 1
}

has_state() {
    is "$(editor_value "getbufvar(1, 'truce_state', '')")" "$1"
}

# Returns whether the name of its file ends so.
has_name() {
    contains "$(editor_value "bufname(1)")/" "$1/"
}

# Returns whether no other program reads or writes the file.
is_writable() {
    is "$(editor_value "getbufvar(1, '&modifiable') && !getbufvar(1, '&readonly')")" 1
}

stop_editor() {
    in_lab kill -STOP "$editor"
}

resume_editor() {
    in_lab kill -CONT "$editor"
}

# end_editor [SIGNAL]
end_editor() {
    in_lab kill "-${1:-TERM}" "$editor"
    wait "$editor_job" 2>/dev/null || true
    editor=
}
