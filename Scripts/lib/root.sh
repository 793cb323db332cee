# SPDX-License-Identifier: Apache-2.0
# The few steps that need root: directly as root, through sudo as another user.

# A Debian user's PATH lacks the directories of programs such as mkfs.ext4. They are added at the end, so that the user's
# own programs come first.
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

# Returns whether this user may open the device of FUSE.
may_open_fuse() {
    [[ -r /dev/fuse && -w /dev/fuse ]]
}
