# SPDX-License-Identifier: Apache-2.0
# Runs the few steps that need root: directly if the user is root, otherwise through sudo.

# On Debian, an ordinary user's PATH lacks the directories of programs such as mkfs.ext4. They are added at the end, so that the
# user's own programs come first.
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
