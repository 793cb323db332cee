# SPDX-License-Identifier: Apache-2.0
# Finds processes that use a directory. A process that started before a mount still has files of the directory below.

# process_links [PREFIX...] prints PID, tab and target for every executable, working directory and descriptor. A user sees only
# its own processes. With the prefix as_root all processes are visible.
process_links() {
    local link target
    "$@" find /proc/[0-9]*/exe /proc/[0-9]*/cwd /proc/[0-9]*/fd -maxdepth 1 -type l -printf '%p\t%l\n' 2>/dev/null |
        while IFS=$'\t' read -r link target; do
            link=${link#/proc/}
            printf '%s\t%s\n' "${link%%/*}" "$target"
        done || true
}

# processes_inside DIRECTORY [PREFIX...] prints a line for each process that uses the directory: its ID, the file that it uses,
# and its command line. This script, and processes that have just ended, are left out.
processes_inside() {
    local directory=$1 process target command
    process_links "${@:2}" | sort -u | while IFS=$'\t' read -r process target; do
        [[ $process != "$$" && ($target == "$directory" || $target == "$directory"/*) ]] || continue
        command=$(command_line "$process")
        [[ -z $command ]] || printf '%s\t%s\t%s\n' "$process" "$target" "$command"
    done
}

# Prints the command line of a process; nothing if the process has just ended.
command_line() {
    { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null || true
}
