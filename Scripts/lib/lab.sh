# SPDX-License-Identifier: Apache-2.0
# The lab, which is the directory of a run, and the check that the run leaves nothing behind. Needs say.sh, root.sh and
# processes.sh.
#
# Editors save by other methods below /tmp and $TMPDIR, so the lab is elsewhere. The lab contains a copy of the binary. So every
# process and every mount that uses the lab belongs to this run.

lab=
lab_is_roots=

# make_lab BINARY [root] [PARENT] makes the lab, and sets `lab` and `lab_truce`. With `root`, parts of the run are done as root.
# PARENT may be any directory, because runs with a PARENT use no editors.
make_lab() {
    local parent
    lab_is_roots=${2:-}
    for parent in "${3:-/var/tmp}" "${XDG_CACHE_HOME:-$HOME/.cache}"; do
        [[ -n ${3:-} ]] || ! is_temporary "$parent" || continue
        mkdir -p "$parent"
        lab=$(mktemp -d "$parent/truce-lab.XXXXXX")
        # Tests act as other users, which must be able to reach their directories.
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

# in_lab COMMAND... runs a command as a user that may see and remove all files of the run. If an ordinary user makes the run,
# this user is enough, and no password is needed.
in_lab() {
    if [[ -n $lab_is_roots ]]; then as_root "$@"; else "$@"; fi
}

# Prints the FUSE mounts of this run, the innermost first.
lab_mounts() {
    local mountpoint
    findmnt --raw --noheadings --types fuse.truce,fuse.bindfs,fuse.mergerfs,fuse.bare,fuse --output TARGET | sort --reverse | while read -r mountpoint; do
        # findmnt prints an unusual byte as \xNN.
        printf -v mountpoint '%b' "$mountpoint"
        [[ $mountpoint != "$lab"/* ]] || say "$mountpoint"
    done
}

# Prints the processes of this run: those that execute its binary, work in the lab or hold a file of the lab open. Root looks
# for them, because this user may not read the links of other users' processes.
lab_processes() {
    processes_inside "$lab" in_lab
}

# Ends the processes of the run that are left, prints them, and removes the lab. Returns 1 if any were left.
remove_lab() {
    local mountpoint process rest clean=0 tenths
    [[ -n $lab ]] || return 0
    cd /
    while read -r mountpoint; do
        say "LEFT BEHIND: a mount on $mountpoint"
        in_lab fusermount3 -u -z "$mountpoint" || true
        clean=1
    done < <(lab_mounts)
    # A daemon ends shortly after its mount has been removed, so this loop waits for that end.
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
