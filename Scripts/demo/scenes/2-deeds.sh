# SPDX-License-Identifier: Apache-2.0
# Scene: a presenter is told what others do to its file. They delete it, move it, save over it and append to it.

play_deeds() {
    below=$lab/deeds-below
    document=$lab/deeds/notes.md
    mkdir "$below" "$lab/deeds"
    write_line "$below/notes.md" "what the disk holds"
    mount_over "$below" ask-again=0ms "$lab/deeds"
    open_editor "$document"
    show_deletion
    show_moves
    show_savers
    show_appending
    expect_nobody_forced "$lab/deeds"
    end_editor
    unmount_from "$lab/deeds"
}

show_deletion() {
    local job why answered unlinked
    type_text "only;here"
    # A stopped Neovim cannot answer, so the file must not be deleted before it goes on.
    stop_editor
    rm "$document" &
    job=$!
    eventually 3 is_why "$document" "rm (*) waits for nvim ($editor)" || true
    expect "rm notes.md waits: $why" contains "$why" "rm ($job) waits for nvim ($editor)"
    expect "meanwhile the file is in the directory below: '$(in_lab cat "$below/notes.md")'" \
        in_lab test -e "$below/notes.md"
    resume_editor
    wait "$job"
    expect "after the answer it is gone there" eventually 0 in_lab test ! -e "$below/notes.md"
    read -r answered unlinked < <(ask_journal "$lab/deeds" deletion notes.md)
    expect "Neovim agreed in step ${answered#*=}, the file was unlinked in step ${unlinked#*=}" \
        is_order "${answered#*=}" "${unlinked#*=}"
    eventually 10 has_state deleted || true
    expect "the buffer is kept ('$(editor_text)') and marked ('$(editor_value "b:truce_state")')" \
        is "$(editor_text), $(editor_value "b:truce_state")" "only | here, deleted"
    expect "it is still unsaved" has_unsaved_text
    eventually 10 is_writable || true
    editor_value "execute('write')" >/dev/null
    timed cat "$document"
    expect ":w makes the file anew: '$(shown "$output")'" is "$output" $'only\nhere'
}

# is_why FILE PATTERN returns whether a line of `truce why` about the file matches the pattern. It sets `why` to the first line.
is_why() {
    why=$("${truce[@]}" why "$1" | grep --max-count=1 ' waits for ' || true)
    why=${why#"${why%%[! ]*}"}
    contains "$why" "$2"
}

is_order() {
    (($1 > 0 && $1 < $2))
}

show_moves() {
    type_text "unsaved;words"
    timed mv "$document" "$lab/deeds/ideas.md"
    eventually 10 has_name /ideas.md || true
    expect "mv notes.md ideas.md ($took ms): the buffer is '$(editor_value "fnamemodify(bufname(1), ':t')")' now" \
        has_name /ideas.md
    timed cat "$lab/deeds/ideas.md"
    expect "cat ideas.md prints what was unsaved: '$(shown "$output")'" is "$output" $'unsaved\nwords'
    timed mv "$lab/deeds/ideas.md" "$document"
    expect "and back ($took ms)" eventually 10 has_name /notes.md
}

show_savers() {
    local saver heard
    timed write_line "$document" "by hand"
    eventually 10 has_text "by hand" || true
    eventually 10 is_writable || true
    ask_journal "$lab/deeds" last >"$lab/savers-began"
    mkdir "$lab/elsewhere"
    for saver in sed vim emacs rsync; do
        show_saver "$saver"
    done
    heard=$(ask_journal "$lab/deeds" heard "$editor" "$(<"$lab/savers-began")")
    expect "in all that Neovim heard of no deletion and no move" is_silent_about_moves "$heard"
}

is_silent_about_moves() {
    ! contains "$1" accommodateDeletion && ! contains "$1" didMove
}

# show_saver PROGRAM shows what the editor is told when PROGRAM replaces the text by "by PROGRAM".
show_saver() {
    local before heard reading='' line
    before=$(ask_journal "$lab/deeds" last)
    timed "save_with_$1"
    eventually 10 has_text "by $1" || true
    eventually 10 is_writable || true
    mapfile -t heard < <(ask_journal "$lab/deeds" heard "$editor" "$before")
    line="$1 saves ($took ms): Neovim shows '$(editor_text)' and heard ${heard[1]// /, }"
    [[ -z ${heard[0]} ]] || reading="; before, because $1 reads: ${heard[0]// /, }"
    expect "$line$reading" is "$(editor_text): ${heard[1]}" "by $1: relinquishToWriter didChange reacquire"
}

save_with_sed() {
    sed -i 's/^by .*/by sed/' "$document"
}

save_with_vim() {
    vim -N -u NONE -i NONE -es -c '%s/^by .*/by vim/' -c wq "$document"
}

save_with_emacs() {
    emacs -Q --batch --eval "(progn (find-file \"$document\") (erase-buffer) (insert \"by emacs\\n\") (save-buffer))" \
        2>/dev/null
}

save_with_rsync() {
    write_line "$lab/elsewhere/notes.md" "by rsync"
    # rsync must not skip the file: the new file has the same length, and may have been written in the same second.
    rsync --ignore-times "$lab/elsewhere/notes.md" "$document"
}

show_appending() {
    type_text "unsaved;words"
    timed append_line "$document" appended
    say "  echo appended >> notes.md, over unsaved text, took $took ms"
    timed cat "$document"
    expect "both are in the file: '$(shown "$output")'" is "$output" $'unsaved\nwords\nappended'
    eventually 10 has_text "unsaved | words | appended" || true
    expect "and in Neovim: '$(editor_text)'" has_text "unsaved | words | appended"
}
