# SPDX-License-Identifier: Apache-2.0
# Scene: programs that hold a file open make others wait for a limited time.

play_bounds() {
    local file
    mkdir "$lab/bounds"
    for file in followed idle noted progress; do
        write_line "$lab/bounds/$file" "first line"
    done
    mount_over "$lab/bounds" hold=1s,idle=300ms
    cd "$lab/bounds" || return

    hold tail -n +1 -f followed
    timed write_line followed "written under tail -f"
    expect "tail -f is at the end of the file: a writer waited $took ms (bound 250 ms)" waited 0 250
    let_go

    hold "$demo/holder" idle idle
    timed write_line idle "written under an idle holder"
    expect "a holder open for writing wrote nothing: a writer waited $took ms (bound 300 ms)" waited 0 300
    let_go

    hold "$demo/holder" noted noted
    timed cat noted
    expect "a holder wrote and went idle: a reader waited $took ms (bound 300 ms)" waited 0 300
    timed write_line noted "written under a holder that once wrote"
    expect "a writer waited $took ms (bound 1000 ms)" waited 300 1000
    let_go

    play_slow_command
    cd "$lab" || return
    unmount_from "$lab/bounds"
}

play_slow_command() {
    hold "$demo/holder" progress progress
    # The suspended writer is preempted between two of its writes. It will overwrite bytes of the other writer. No step can
    # preserve those bytes before the other writer closes the file.
    sleep 0.1
    timed write_line progress "final figures"
    expect "a slow command keeps writing: another writer waited $took ms (bound 1000 ms)" waited 700 1000
    # During this sleep, the slow command overwrites the bytes of the other writer.
    sleep 1
    let_go
    say "  the file now begins: $(head --bytes=30 progress)"
    say "  truce versions:"
    "${truce[@]}" versions progress
    expect "what the slow command destroyed is kept" kept_has progress "final figures"
}

# kept_has FILE TEXT returns whether a version of FILE has the contents TEXT.
kept_has() {
    local id rest found=1
    while read -r id rest; do
        "${truce[@]}" versions "$1" restore "$id" restored || continue
        [[ $(in_lab cat restored) != "$2" ]] || found=0
        in_lab rm -f restored
    done < <("${truce[@]}" versions "$1")
    return "$found"
}
