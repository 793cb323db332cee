# SPDX-License-Identifier: Apache-2.0
# The trees of Scripts/bench, and their mounts. All trees are equal and on one file system. Needs say.sh, root.sh and lab.sh,
# and the variables `trees`, `client`, `directory` and the sizes.

# Prints the path of a tree's files that does not lead through a mount. Truce is mounted over its source, the others beside
# their sources.
source_of() {
    case $1 in
        bindfs | mergerfs | bare) say "$lab/$1.below" ;;
        *) say "$lab/$1" ;;
    esac
}

is_truce() {
    [[ $1 == @(passthrough|daemon) ]]
}

# without TREE measures no workload in this tree.
without() {
    local tree rest=()
    for tree in "${trees[@]}"; do
        [[ $tree == "$1" ]] || rest+=("$tree")
    done
    trees=("${rest[@]}")
}

# Gives git only the settings of the lab.
prepare_git() {
    export GIT_CONFIG_GLOBAL=$lab/gitconfig GIT_CONFIG_NOSYSTEM=1
    git config --global user.name Bench
    git config --global user.email bench@localhost
    git config --global gc.auto 0
    # On a mount, git may see another user than the owner of the files.
    git config --global safe.directory '*'
    git config --global init.defaultBranch main
}

# Makes a program in C: a header, and as many sources as the build compiles.
make_program() {
    local number
    mkdir "$1"
    say 'int part(int number);' >"$1/program.h"
    for ((number = 0; number < units; number++)); do
        cat >"$1/part$number.c" <<END
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int part$number(int of) { char text[64]; return snprintf(text, sizeof text, "%d", of + $number) + (int)strlen(text); }
END
    done
    {
        say 'VPATH = ../program'
        printf 'program.a: $(patsubst %%,part%%.o,'
        for ((number = 0; number < units; number++)); do printf ' %d' "$number"; done
        # make, and not the shell, replaces the variables in this text.
        # shellcheck disable=SC2016
        printf ')\n\t$(AR) rcs $@ $^\n%%.o: %%.c program.h\n\t$(CC) -O1 -c -o $@ $<\n'
    } >"$1/Makefile"
}

# Makes the input of sqlite3, outside of the trees.
make_scripts() {
    local mode number
    for mode in off full; do
        {
            say "PRAGMA synchronous=$mode; CREATE TABLE entries (number INTEGER, words TEXT);"
            for ((number = 0; number < commits; number++)); do
                say "INSERT INTO entries VALUES ($number, 'somewhat more than a number');"
            done
        } >"$lab/commits-$mode.sql"
    done
    cat >"$lab/bulk.sql" <<END
PRAGMA synchronous=off; CREATE TABLE entries (number INTEGER, words TEXT); BEGIN;
WITH RECURSIVE counted(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM counted LIMIT $((commits * 100)))
INSERT INTO entries SELECT number, 'somewhat more than a number' FROM counted; COMMIT;
END
}

make_tree() {
    local source
    source=$(source_of "$1")
    mkdir -p "$lab/$1" "$source"
    "$client" make-tree "$source" tree "$directories" "$files" 4096
    "$client" make-tree "$source" git "$git_directories" "$git_files" 3000
    git -C "$source/git" init --quiet
    git -C "$source/git" add .
    git -C "$source/git" commit --quiet --message "All files"
    "$client" create "$source" names "$names" 0 >/dev/null
    make_program "$source/program"
    head --bytes=4096 /dev/zero >"$source/presented"
    cp "$source/presented" "$source/unpresented"
    cp "$source/presented" "$source/handed"
    if is_truce "$1" && is_measured open-crowd; then
        "$client" make-tree "$source" crowd "$crowd_directories" "$crowd_files" 1
    fi
}

make_trees() {
    local tree source big=''
    heading "Making ${#trees[@]} trees in $lab, on $file_system"
    prepare_git
    make_scripts
    for tree in "${trees[@]}"; do
        make_tree "$tree"
        source=$(source_of "$tree")
        if [[ -z $big ]]; then
            # The contents are random bytes, because some file systems do not store zeros.
            big=$source/big
            head --bytes="${mebibytes}M" /dev/urandom >"$big"
            tar --create --file="$lab/files.tar" --directory="$source" --exclude=.git git
            git clone --quiet --bare --no-local "$source/git" "$lab/origin"
        else
            cp --reflink=never "$big" "$source/big"
        fi
        cp --reflink=never "$big" "$source/written"
        # The file below is opened before the mount, because an in-place mount hides it.
        exec {descriptor}<"$source/big"
        files_below[$tree]=$descriptor
    done
}

mount_tree() {
    local options=()
    case $1 in
        bindfs)
            # By default bindfs lets all users use the mount. A user other than root may not do that.
            ((EUID == 0)) || options=(--no-allow-other)
            bindfs "${options[@]}" "$lab/bindfs.below" "$lab/bindfs"
            ;;
        mergerfs) mergerfs "$lab/mergerfs.below" "$lab/mergerfs" ;;
        bare) as_root "$lab/bin/BareMirror" "$lab/bare.below" "$lab/bare" ;;
        passthrough) as_root "$lab_truce" mount "$lab/passthrough" -o allow_other ;;
        daemon)
            # The crowd has many users. Only root may let other users use the mount.
            ((EUID != 0)) || options=(-o allow_other)
            "$lab_truce" mount "$lab/daemon" -o data=daemon "${options[@]}"
            ;;
    esac >/dev/null
}

unmount_tree() {
    findmnt --mountpoint "$lab/$1" >/dev/null || return 0
    case $1 in
        bindfs | mergerfs) fusermount3 -u "$lab/$1" ;;
        bare) as_root fusermount3 -u "$lab/$1" ;;
        passthrough) as_root "$lab_truce" unmount "$lab/passthrough" ;;
        daemon) "$lab_truce" unmount "$lab/daemon" ;;
    esac
}

# Mounts the bare mirror anew if it has used many of its descriptors. It holds a descriptor for each file that the kernel knows,
# and fails with EMFILE at its limit.
spare_descriptors() {
    local process found
    found=$(find /proc -mindepth 2 -maxdepth 2 -name exe -lname "$lab/bin/BareMirror" -printf '%h\n' 2>/dev/null || true)
    for process in $found; do
        has_spare_descriptors "$process" || { unmount_tree bare && mount_tree bare; }
    done
}

# has_spare_descriptors PROCESS returns whether the process, a directory in /proc, uses less than half of its descriptors.
has_spare_descriptors() {
    local limit descriptors
    limit=$(sed -n 's/^Max open files  *\([0-9]*\).*/\1/p' "$1/limits" 2>/dev/null) || return 0
    descriptors=("$1"/fd/*)
    ((${#descriptors[@]} < limit / 2))
}

# status_of TREE QUERY prints the result of a jq query in the mount's status. Only root and the owner of the mount get the
# status.
status_of() {
    local command=("$lab_truce" status --json "$lab/$1")
    if [[ $1 == passthrough ]]; then command=(as_root "${command[@]}"); fi
    "${command[@]}" | jq "$2" --raw-output
}

mount_all() {
    local tree path changes
    for tree in "${trees[@]}"; do
        mount_tree "$tree"
        changes=$(git -C "$lab/$tree/git" status --porcelain) || refuse "bench: git finds nothing in $lab/$tree."
        [[ -z $changes ]] || refuse "bench: git finds changes in $lab/$tree."
        is_truce "$tree" || continue
        # The daemon chooses its data path when the first file is opened.
        cat "$lab/$tree/presented" >/dev/null
        path=$(status_of "$tree" .options.dataPath)
        [[ $path != "$tree" ]] || continue
        [[ $tree == passthrough ]] || refuse "bench: data goes by '$path' where it should go by '$tree'."
        say "This kernel passes no data of $file_system through: those columns are left out."
        for path in passthrough bare; do
            unmount_tree "$path"
            without "$path"
        done
    done
}

unmount_all() {
    local tree status=0
    for tree in "${trees[@]}"; do
        unmount_tree "$tree" || status=1
    done
    return "$status"
}
