# SPDX-License-Identifier: Apache-2.0
# The directory of a run, and the proof that the run left nothing behind. Needs say.sh, root.sh and processes.sh.
#
# Editors save differently below /tmp and $TMPDIR, so the lab is elsewhere. It holds a copy of the binary, too: every
# process and every mount of the lab belongs to this run and to no other.

lab=
lab_is_roots=

# make_lab BINARY [root] [PARENT] sets `lab` and `lab_truce`. With `root`, parts of the run are done as root. A PARENT can
# lie anywhere: no editor saves there.
make_lab() {
    local parent
    lab_is_roots=${2:-}
    for parent in "${3:-/var/tmp}" "${XDG_CACHE_HOME:-$HOME/.cache}"; do
        [[ -n ${3:-} ]] || ! is_temporary "$parent" || continue
        mkdir -p "$parent"
        lab=$(mktemp -d "$parent/truce-lab.XXXXXX")
        # Tests act as other users by number, and these must be able to walk to their directories.
        chmod 755 "$lab"
        mkdir "$lab/bin"
        lab_truce=$lab/bin/truce
        cp "$1" "$lab_truce"
        return
    done
    refuse "Both /var/tmp and the cache directory lie below a temporary directory, where editors save differently."
}

is_temporary() {
    local temporary
    for temporary in /tmp "${TMPDIR:-/tmp}" "${TMP:-/tmp}" "${TEMP:-/tmp}"; do
        [[ $1/ == "${temporary%/}"/* ]] && return 0
    done
    return 1
}

# in_lab COMMAND... runs it as a user that may see and remove all files of the run. A run of an ordinary user needs no
# password.
in_lab() {
    if [[ -n $lab_is_roots ]]; then as_root "$@"; else "$@"; fi
}

# The FUSE mounts of this run, the innermost first.
lab_mounts() {
    local mountpoint
    findmnt --raw --noheadings --types fuse.truce,fuse.bindfs,fuse.mergerfs,fuse.bare,fuse --output TARGET | sort --reverse | while read -r mountpoint; do
        # findmnt writes unusual bytes as \xNN.
        printf -v mountpoint '%b' "$mountpoint"
        [[ $mountpoint != "$lab"/* ]] || say "$mountpoint"
    done
}

# The processes of this run: those that execute its binary, work in the lab or hold a file of it open. This user may not
# read the links of another user's process.
lab_processes() {
    processes_inside "$lab" in_lab
}

# Ends remaining processes of the run, prints them, and removes the lab. Returns 1 if any were left.
remove_lab() {
    local mountpoint process rest clean=0 tenths
    [[ -n $lab ]] || return 0
    cd /
    while read -r mountpoint; do
        say "LEFT BEHIND: a mount on $mountpoint"
        in_lab fusermount3 -u -z "$mountpoint" || true
        clean=1
    done < <(lab_mounts)
    # A daemon needs a moment to end after its mount is gone.
    for ((tenths = 0; tenths < 50; tenths++)); do
        [[ -n $(lab_processes) ]] || break
        sleep 0.1
    done
    while read -r process rest; do
        say "LEFT BEHIND: process $process, $rest"
        in_lab kill -KILL "$process" 2>/dev/null || true
        clean=1
    done < <(lab_processes)
    in_lab rm -rf --one-file-system "$lab"
    lab=
    return "$clean"
}
