# SPDX-License-Identifier: Apache-2.0
# Functions that all scenes use. `lab`, `lab_truce` and `in_lab` come from lib/lab.sh. `truce` is a prefix that runs the truce
# command as a user that may mount. `root` is a prefix that runs any command as that user, which may present any file.
#
# A process does not wait for claims of its ancestors and descendants, and the script `play` is the ancestor of every process
# here. So the shell itself never uses a document through a mount. Only programs and subshells, its children, do.

failures=0
holder=

# expect SENTENCE COMMAND... prints whether the sentence is true: whether the command succeeds.
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

# contains TEXT PATTERN returns whether a part of TEXT matches the pattern.
contains() {
    # shellcheck disable=SC2053  # The right side is a pattern.
    [[ $1 == *$2* ]]
}

# eventually SECONDS COMMAND... repeats the command until it succeeds, for at most SECONDS.
eventually() {
    local until=$((SECONDS + $1 + 1))
    shift
    until "$@"; do
        ((SECONDS < until)) || return 1
        sleep 0.02
    done
}

# mount_over SOURCE [OPTIONS [MOUNTPOINT]] mounts SOURCE over itself, or at MOUNTPOINT.
mount_over() {
    local options=${2:-}
    [[ $mode != --system ]] || options+=${options:+,}allow_other
    "${truce[@]}" mount ${options:+-o "$options"} "$1" ${3:+"$3"}
    findmnt --types fuse.truce --mountpoint "${3:-$1}" >/dev/null || refuse "There is no mount of Truce on ${3:-$1}."
}

unmount_from() {
    "${truce[@]}" unmount "$1"
}

# ask_journal DIRECTORY QUESTION... prints the answer of demo/journal to the question, from the journal of the mount.
ask_journal() {
    "${truce[@]}" status --json "$1" | "$demo/journal" "${@:2}"
}

# expect_nobody_forced DIRECTORY shows that no wait on the mount was ended by a time limit.
expect_nobody_forced() {
    local found
    found=$(ask_journal "$1" forced)
    expect "no claim was preempted or suspended: $found" is "$found" "proceeded=0 suspended=0 forfeited=0"
}

milliseconds_since() {
    say $(((${EPOCHREALTIME/[.,]/} - $1) / 1000))
}

# timed COMMAND... runs a command in a process of its own. It sets `took` to the milliseconds and `output` to the output.
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

# shown LINES prints the lines as a single line.
shown() {
    say "${1//$'\n'/ | }"
}

# hold COMMAND... starts a program that holds a file, and returns when the program has printed its first line.
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

# waited LEAST BOUND returns whether the step took at least LEAST and about BOUND milliseconds. A busy machine may be late by 10
# s. The limit shows that BOUND has ended the wait, not the 15 s of the option `wait`.
waited() {
    ((took >= $1 && took <= $2 + 10000))
}

# Ends all processes that are left, removes the mounts and the lab, and ends the script. Fails if anything was left behind.
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
