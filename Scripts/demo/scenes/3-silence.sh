# SPDX-License-Identifier: Apache-2.0
# Scene: an editor that does not answer delays others for a limited time, and an editor that has ended does not delay them.

play_silence() {
    document=$lab/silence/notes.md
    mkdir "$lab/silence"
    write_line "$lab/silence/notes.md" "what the disk holds"
    mount_over "$lab/silence" relinquish=1s
    show_stopped
    unmount_from "$lab/silence"
    mount_over "$lab/silence" relinquish=10s
    show_killed
    unmount_from "$lab/silence"
}

# read_behind_editor stops the editor and starts `reader`, which waits for the editor. It sets `began` to the time, and `why` to
# the line of `truce why`.
read_behind_editor() {
    stop_editor
    began=${EPOCHREALTIME/[.,]/}
    cat "$document" >"$lab/read" &
    reader=$!
    eventually 5 is_why "$document" "cat ($reader) waits for nvim ($editor)" || true
}

# took_between LEAST BOUND returns whether the step took at least LEAST and about BOUND milliseconds. A busy machine may take up
# to 3 s more, which is less than the default deadlines.
took_between() {
    ((took >= $1 && took <= $2 + 3000))
}

show_stopped() {
    local began reader why late
    open_editor "$document"
    type_text "unsaved;words"
    read_behind_editor
    expect "SIGSTOP, with relinquish=1s: truce why says '$why'" \
        contains "$why" "cat ($reader) waits for nvim ($editor)"
    wait "$reader"
    took=$(milliseconds_since "$began")
    late=$(ask_journal "$lab/silence" asked "$editor")
    expect "the reader waited $took ms in all, for Neovim $late ms (deadline 1000 ms)" took_between 1000 1000
    expect "it went on with what the disk holds: '$(<"$lab/read")'" is "$(<"$lab/read")" "what the disk holds"
    expect "one question ran out of time, and nothing else: $(ask_journal "$lab/silence" forced)" \
        is "$(ask_journal "$lab/silence" forced)" "proceeded=0 suspended=0 forfeited=1"
    resume_editor
    expect "Neovim, going on, still has its text: '$(editor_text)'" has_text "unsaved | words"
    end_editor
}

show_killed() {
    local began reader why
    open_editor "$document"
    read_behind_editor
    expect "SIGSTOP, with relinquish=10s: truce why says '$why'" \
        contains "$why" "cat ($reader) waits for nvim ($editor)"
    expect "the reader still waits after $(milliseconds_since "$began") ms" test ! -s "$lab/read"
    began=${EPOCHREALTIME/[.,]/}
    end_editor KILL
    wait "$reader"
    took=$(milliseconds_since "$began")
    expect "SIGKILL: it goes on $took ms later (deadline 10000 ms)" took_between 0 0
    expect "with what the disk holds: '$(<"$lab/read")'" is "$(<"$lab/read")" "what the disk holds"
    timed cat "$document"
    expect "the next reader does not wait: $took ms" took_between 0 0
    expect_nobody_forced "$lab/silence"
}
