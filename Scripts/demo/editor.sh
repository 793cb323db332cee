# SPDX-License-Identifier: Apache-2.0
# A Neovim without a screen, with the plug-in. The scenes control it over its own socket, as a second Neovim would. Needs
# stage.sh.
#
# Neovim does not save here by itself: it has no configuration, no swap file and no timer.

editor=
editor_job=
# The events after which a user's configuration might make Neovim save.
saving_events="'CursorHold', 'CursorHoldI', 'TextChanged', 'TextChangedI', 'InsertLeave', 'BufLeave', 'FocusLost'"

# nvim_here ARGUMENT... runs Neovim with its log and temporary files in the lab. Neovim runs as the user, even if the mount is
# root's, because the files must belong to the user. sudo would also stop when Neovim stops.
nvim_here() {
    exec env TMPDIR="$lab/tmp" NVIM_LOG_FILE="$lab/tmp/nvim.log" nvim --clean "$@"
}

# open_editor FILE [BACKUPCOPY] starts Neovim, waits until it presents the file, and sets `editor` to its process ID.
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

# type_text 'LINE;LINE' replaces the text in the buffer, without saving it.
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

# Returns whether the name of the buffer's file ends with the argument.
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

# end_editor [SIGNAL] ends Neovim by a signal, and waits for its end.
end_editor() {
    in_lab kill "-${1:-TERM}" "$editor"
    wait "$editor_job" 2>/dev/null || true
    editor=
}
