# SPDX-License-Identifier: Apache-2.0
# Small file systems that are mounted below a tree, for cases that a single file system does not have. One is full, one is
# read-only, and one has a file with the largest number of links. Only root can make them. Needs say.sh.

# make_pieces TREE OWNER makes TREE/pieces, a directory of the small file systems. If this kernel or container refuses one, it
# is left out. The checks that need it then answer that they could not run.
make_pieces() {
    local pieces=$1/pieces owner=$2 name
    mkdir "$pieces" "$1/images"
    make_other "$pieces/other"
    make_read_only "$pieces/readonly" "$owner"
    make_busy "$pieces/busy"
    make_full "$pieces/full" "$1/images/full" || say "There is no full file system: no loop devices here."
    make_linked "$pieces/linked" "$1/images/linked" || say "There is no file with all its links: no loop devices here."
    for name in broken breaking; do
        make_broken "$pieces/$name" "$1/images/$name" || say "There is no $name file system: no loop devices here."
    done
    make_twice "$pieces"
    make_flagged "$pieces" "$owner"
    mount_or_leave -t mqueue none "$pieces/mqueue"
    mount_or_leave -t cgroup2 none "$pieces/cgroup"
}

# mount_or_leave ARGUMENTS... DIRECTORY makes a mount, or leaves it out if the kernel refuses it.
mount_or_leave() {
    mkdir "${*: -1}"
    mount "$@" 2>/dev/null || rmdir "${*: -1}"
}

make_other() {
    mkdir "$1"
    mount -t tmpfs -o size=16m,mode=777 none "$1"
    mkdir -m 777 "$1/dir"
    say "another" >"$1/dir/file"
    chmod 666 "$1/dir/file"
}

make_read_only() {
    mkdir "$1"
    mount -t tmpfs -o size=1m,mode=777 none "$1"
    mkdir -m 777 "$1/dir"
    say "read only" >"$1/file"
    say "read only" >"$1/dir/file"
    chmod 666 "$1/file"
    ln -s file "$1/link"
    chown -R "$2:$2" "$1"
    mount -o remount,ro "$1"
}

make_busy() {
    mkdir -m 777 "$1" "$1/mountpoint"
    say "above" >"$1/above"
    say "below" >"$1/file"
    chmod 666 "$1/above" "$1/file"
    mount -t tmpfs -o size=1m,mode=777 none "$1/mountpoint"
    mount --bind "$1/above" "$1/file"
}

# make_image FILE CONTENTS OPTIONS... makes an ext4 image of 2 MiB that contains the directory CONTENTS.
make_image() {
    truncate --size=2M "$1"
    mkfs.ext4 -q -F -b 1024 -m 0 "${@:3}" -d "$2" "$1"
    rm -r "$2"
}

# Makes a file system without a free block. Its directory `in` has three of the longest names, which fill the directory's only
# block.
make_full() {
    local contents=$2.contents name number
    mkdir --mode=777 "$contents" "$contents/in"
    name=$(printf '%250s' '')
    for number in 1 2 3; do
        say "$number" >"$contents/in/name$number${name// /x}"
    done
    say "in" >"$contents/in/file"
    chmod 666 "$contents"/in/*
    chmod 777 "$contents/in"
    make_image "$2" "$contents"
    mkdir "$1"
    mount -o loop "$2" "$1" 2>/dev/null || { rmdir "$1" && return 1; }
    head --bytes=2M /dev/zero >"$1/rest" 2>/dev/null || true
    sync --file-system "$1"
    head --bytes=2M /dev/zero >"$1/last" 2>/dev/null || true
}

# Makes a file and a directory with 65,000 links. The number is set in the image, because so many calls of link(2) would take
# too long.
make_linked() {
    local contents=$2.contents path
    mkdir --mode=777 "$contents" "$contents/dir" "$contents/in"
    say "linked" >"$contents/file"
    chmod 777 "$contents/dir" "$contents/in"
    chmod 666 "$contents/file"
    make_image "$2" "$contents" -O ^dir_nlink
    for path in file dir; do
        debugfs -w -R "set_inode_field $path links_count 65000" "$2" 2>/dev/null
    done
    mkdir "$1"
    mount -o loop "$2" "$1" 2>/dev/null || { rmdir "$1" && return 1; }
}

make_broken() {
    local contents=$2.contents
    mkdir --mode=777 "$contents" "$contents/dir" "$contents/empty"
    say "broken" >"$contents/file"
    make_image "$2" "$contents"
    mkdir "$1"
    mount -o loop "$2" "$1" 2>/dev/null || { rmdir "$1" && return 1; }
}

# Mounts a directory so that it has three paths: unchanged, bound a second time, and read-only.
make_twice() {
    mkdir -m 777 "$1/once" "$1/again" "$1/unchanged"
    say "the same" >"$1/once/file"
    chmod 666 "$1/once/file"
    mount --bind "$1/once" "$1/again"
    mount --bind "$1/once" "$1/unchanged"
    mount -o remount,bind,ro "$1/unchanged"
}

make_flagged() {
    local flag
    for flag in noexec nosuid nodev noatime strictatime; do
        mkdir "$1/$flag"
        mount -t tmpfs -o "size=1m,mode=777,$flag" none "$1/$flag"
        chown "$2:$2" "$1/$flag"
    done
}

# make_program TREE OWNER makes a program that only waits.
make_program() {
    mkdir -m 777 "$1/pieces/running"
    cp "$(command -v sleep)" "$1/pieces/running/program"
    chown "$2:$2" "$1/pieces/running/program"
}

# start_program PATH runs the program by its path in the checked tree, so that it is in use. The prefix `acting` runs it.
start_program() {
    "${acting[@]}" "$1" 600 >/dev/null &
    running=$!
    until [[ $(readlink "/proc/$running/exe") == */running/program ]]; do
        kill -0 "$running" 2>/dev/null || refuse "The program that is to be in use does not run: $1"
        sleep 0.01
    done
}

running=''

end_program() {
    [[ -n $running ]] || return 0
    kill "$running"
    wait "$running" 2>/dev/null || true
    running=''
}

# remove_pieces TREE unmounts the file systems, the innermost first. Their loop devices end with the mounts.
remove_pieces() {
    local mountpoint
    [[ -d $1/pieces ]] || return 0
    findmnt --raw --noheadings --output TARGET | sort --reverse | while read -r mountpoint; do
        printf -v mountpoint '%b' "$mountpoint"
        [[ $mountpoint != "$1/pieces"/* ]] || umount "$mountpoint" || umount --lazy "$mountpoint"
    done
    rm -rf --one-file-system "$1/pieces" "$1/images"
}
