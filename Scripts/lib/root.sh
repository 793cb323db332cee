# SPDX-License-Identifier: Apache-2.0
# The few steps that need root: directly as root, through sudo as anybody else.

# A Debian user's PATH lacks the directories of programs such as mkfs.ext4, which are looked for and called. They come
# last: what the user has of the same name stays the user's choice.
for directory in /usr/local/sbin /usr/sbin /sbin; do
    [[ :$PATH: == *:"$directory":* ]] || PATH=$PATH:$directory
done
export PATH
unset directory

may_become_root() {
    ((EUID == 0)) || command -v sudo >/dev/null
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo -- "$@"
    fi
}

# Whether this user may open the device every FUSE mount starts from.
may_open_fuse() {
    [[ -r /dev/fuse && -w /dev/fuse ]]
}
