# SPDX-License-Identifier: Apache-2.0
# Scene: other programs read the unsaved text of an editor.

play_unsaved() {
    local backupcopy
    mkdir "$lab/unsaved-below" "$lab/unsaved"
    for backupcopy in auto yes no; do
        write_line "$lab/unsaved-below/notes.md" "what the disk holds"
        mount_over "$lab/unsaved-below" ask-again=0ms "$lab/unsaved"
        open_editor "$lab/unsaved/notes.md" "$backupcopy"
        show_unsaved "$backupcopy"
        end_editor
        unmount_from "$lab/unsaved"
    done
}

# show_unsaved BACKUPCOPY shows that a reader gets the unsaved text, with this value of the option 'backupcopy'.
show_unsaved() {
    local words="not saved, $1" saving
    type_text "# Notes;$words"
    # Triggers all events after which an editor might save by itself, and waits a second.
    editor_value "execute(map([$saving_events], '\"doautocmd <nomodeline> \" . v:val'))" >/dev/null
    saving=$(editor_value "&autowrite . ' ' . &autowriteall . ' ' . len(timer_info())")
    sleep 1
    say "  backupcopy=$1: Neovim shows '$(editor_text)', the directory below holds '$(on_disk)'"
    expect "nothing saves by itself (autowrite, autowriteall, timers: $saving)" is "$(on_disk) $saving" \
        "what the disk holds 0 0 0"
    timed cat "$lab/unsaved/notes.md"
    expect "cat prints '$(shown "$output")' after $took ms" is "$output" "# Notes"$'\n'"$words"

    type_text "# Notes;a needle, $1"
    expect "the directory below still holds '$(on_disk)'" is "$(on_disk)" "# Notes | $words"
    timed grep -r needle "$lab/unsaved"
    expect "grep -r finds '${output#"$lab/"}' after $took ms" is "$output" "$lab/unsaved/notes.md:a needle, $1"
    expect_nobody_forced "$lab/unsaved"
}

on_disk() {
    shown "$(in_lab cat "$lab/unsaved-below/notes.md")"
}
