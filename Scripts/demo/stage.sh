# SPDX-License-Identifier: Apache-2.0
# Shared parts of the scenes. `lab`, `lab_truce` and `in_lab` are from lib/lab.sh. `truce` runs the command as a user that
# may mount, and `root` is a prefix that runs any command as that user, which may present any file.
#
# A process does not wait for the claims of its own ancestors and descendants, and play is the ancestor of every process
# here. So the shell itself never touches a document through a mount; programs and subshells, its children, do.

failures=0
holder=

# expect SENTENCE COMMAND... shows whether the sentence is true.
expect() {
    local sentence=$1
    shift
    if "$@"; then
        say "  shown: $sentence"
    else
        say "  NOT SHOWN: $sentence"
        failures=$((failures + 1))
    fi
}

is() {
    [[ $1 == "$2" ]]
}

# contains TEXT PATTERN
contains() {
    # shellcheck disable=SC2053  # It is a pattern.
    [[ $1 == *$2* ]]
}

# eventually SECONDS COMMAND... waits until the command succeeds, for so many seconds at most.
eventually() {
    local until=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        ((SECONDS < until)) || return 1
        sleep 0.02
    done
}

# mount_over SOURCE [OPTIONS [MOUNTPOINT]]
mount_over() {
    local options=${2:-}
    [[ $mode != --system ]] || options+=${options:+,}allow_other
    "${truce[@]}" mount ${options:+-o "$options"} "$1" ${3:+"$3"}
    findmnt --types fuse.truce --mountpoint "${3:-$1}" >/dev/null || refuse "There is no mount of Truce on ${3:-$1}."
}

unmount_from() {
    "${truce[@]}" unmount "$1"
}

# ask_journal DIRECTORY QUESTION... answers it from the journal of the mount there; see demo/journal.
ask_journal() {
    "${truce[@]}" status --json "$1" | "$demo/journal" "${@:2}"
}

# No wait on the mount at DIRECTORY has ended by a limit.
expect_nobody_forced() {
    local found
    found=$(ask_journal "$1" forced)
    expect "no claim was preempted or suspended: $found" is "$found" "proceeded=0 suspended=0 forfeited=0"
}

milliseconds_since() {
    say $(((${EPOCHREALTIME/[.,]/} - $1) / 1000))
}

# timed COMMAND... sets `took`, in milliseconds, and `output`. The command runs in a process of its own.
timed() {
    local began=${EPOCHREALTIME/[.,]/}
    output=$("$@") || expect "$1 ends well" false
    took=$(milliseconds_since "$began")
}

write_line() {
    printf '%s\n' "$2" >"$1"
}

append_line() {
    printf '%s\n' "$2" >>"$1"
}

# shown LINES prints them on one line.
shown() {
    say "${1//$'\n'/ | }"
}

# hold COMMAND... starts the holder and returns once it has printed its first line.
hold() {
    local line
    exec {holder_output}< <(exec "$@")
    holder=$!
    read -r line <&"$holder_output"
}

let_go() {
    kill "$holder"
    wait "$holder" 2>/dev/null || true
    exec {holder_output}<&-
    holder=
}

# waited LEAST BOUND, in milliseconds. A busy machine may be late. The scene shows that there was a wait, and that the bound
# ended it, not the 15 s of `wait`.
waited() {
    ((took >= $1 && took <= $2 + 10000))
}

# Ends remaining processes, removes the mounts and leaves nothing behind; prints whether that took force.
clean_up() {
    local status=$? job mountpoint
    trap - EXIT
    trap '' INT TERM
    for job in $(jobs -p) $holder $editor; do
        in_lab kill -KILL "$job" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    cd /
    while read -r mountpoint; do
        eventually 5 "${truce[@]}" unmount "$mountpoint" 2>/dev/null || true
    done < <(lab_mounts)
    remove_lab || status=1
    exit "$status"
}
