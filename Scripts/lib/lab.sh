# SPDX-License-Identifier: Apache-2.0
# The directory a run works in, and the proof that the run left nothing behind. Needs say.sh and root.sh.
#
# Editors save differently below /tmp and $TMPDIR, so the lab is elsewhere. It holds a copy of the binary: every
# process that executes this copy and every mount below the lab was made by this run and by nobody else.

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

# The processes of this run; as_root, because the executable of another user's process is not ours to see.
lab_processes() {
    local link target
    as_root find /proc/[0-9]*/exe -maxdepth 0 -printf '%p\t%l\n' 2>/dev/null |
        while IFS=$'\t' read -r link target; do
            [[ $target == "$lab_truce" || $target == "$lab_truce (deleted)" ]] || continue
            link=${link#/proc/}
            say "${link%/exe}"
        done || true
}

# Ends what the run left, by name, and removes the lab. Returns 1 if anything was left; says what.
remove_lab() {
    local mountpoint process clean=0
    [[ -n $lab ]] || return 0
    while read -r mountpoint; do
        say "LEFT BEHIND: a mount on $mountpoint"
        as_root fusermount3 -u -z "$mountpoint" || true
        clean=1
    done < <(lab_mounts)
    while read -r process; do
        say "LEFT BEHIND: process $process, $(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null || true)"
        as_root kill -KILL "$process" || true
        clean=1
    done < <(lab_processes)
    as_root rm -rf --one-file-system "$lab"
    lab=
    return "$clean"
}
