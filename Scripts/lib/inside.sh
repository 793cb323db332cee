# SPDX-License-Identifier: Apache-2.0
# Who is already inside a directory. Such a process keeps what it holds of the directory below a new mount.

# processes_inside DIRECTORY [PREFIX...] prints a line for each process with its working directory or a descriptor
# there. A user sees the own processes only; with the prefix as_root it lists all.
processes_inside() {
    local directory=$1 link target process seen=" $$ "
    "${@:2}" find /proc/[0-9]*/cwd /proc/[0-9]*/fd -maxdepth 1 -type l -printf '%p\t%l\n' 2>/dev/null |
        while IFS=$'\t' read -r link target; do
            [[ $target == "$directory" || $target == "$directory"/* ]] || continue
            process=${link#/proc/}
            process=${process%%/*}
            [[ $seen != *" $process "* ]] || continue
            seen+="$process "
            say "  $process $(tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null || true) has $target"
        done || true
}
