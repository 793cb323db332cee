# SPDX-License-Identifier: Apache-2.0
# The directory a run works in, and the proof that the run left nothing behind. Needs say.sh, root.sh and processes.sh.
#
# Editors save differently below /tmp and $TMPDIR, so the lab is elsewhere. It holds a copy of the binary, too:
# every process and every mount that has to do with the lab was made by this run and by nobody else.

lab=

# make_lab BINARY sets `lab` and `lab_truce`.
make_lab() {
    local parent
    for parent in /var/tmp "${XDG_CACHE_HOME:-$HOME/.cache}"; do
        is_temporary "$parent" && continue
        mkdir -p "$parent"
        lab=$(mktemp -d "$parent/truce-lab.XXXXXX")
        # Tests act as other users by number, who must be able to walk to their directories.
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

# The fuse.truce mounts of this run, the innermost first.
lab_mounts() {
    local mountpoint
    findmnt --raw --noheadings --types fuse.truce --output TARGET | sort --reverse | while read -r mountpoint; do
        # findmnt writes unusual bytes as \xNN.
        printf -v mountpoint '%b' "$mountpoint"
        [[ $mountpoint != "$lab"/* ]] || say "$mountpoint"
    done
}

# The processes of this run: those that execute its binary, work in the lab or hold something of it open. As root,
# because the links of another user's process are not ours to read.
lab_processes() {
    processes_inside "$lab" as_root
}

# Ends what the run left, by name, and removes the lab. Returns 1 if anything was left; says what.
remove_lab() {
    local mountpoint process rest clean=0 tenths
    [[ -n $lab ]] || return 0
    cd /
    while read -r mountpoint; do
        say "LEFT BEHIND: a mount on $mountpoint"
        as_root fusermount3 -u -z "$mountpoint" || true
        clean=1
    done < <(lab_mounts)
    # A daemon whose mount is gone needs a moment to end.
    for ((tenths = 0; tenths < 50; tenths++)); do
        [[ -n $(lab_processes) ]] || break
        sleep 0.1
    done
    while read -r process rest; do
        say "LEFT BEHIND: process $process, $rest"
        as_root kill -KILL "$process" 2>/dev/null || true
        clean=1
    done < <(lab_processes)
    as_root rm -rf --one-file-system "$lab"
    lab=
    return "$clean"
}
