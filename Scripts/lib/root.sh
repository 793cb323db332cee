# SPDX-License-Identifier: Apache-2.0
# The few steps that need root: directly as root, through sudo as anybody else.

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
