# SPDX-License-Identifier: Apache-2.0
# Scene: programs get the results that they would get without Truce.

same_trees() {
    "$scripts/lib/compare-trees" "$1" "$2" --times-below originals --times-below unpacked/originals \
        --times-below synced --times-below copied --any-contents project/.git/index
}

play_same_results() {
    # The work is done in a directory below the mount, because the root of a mounted source also contains .truce.
    mkdir -p "$lab/work-plain" "$lab/work-mount/tree"
    "$demo/real-work" "$lab/work-plain"
    mount_over "$lab/work-mount"
    "$demo/real-work" "$lab/work-mount/tree"
    expect "seen through the mount, the tree is the plain one" same_trees "$lab/work-plain" "$lab/work-mount/tree"
    unmount_from "$lab/work-mount"
    expect "so it is in the directory below" same_trees "$lab/work-plain" "$lab/work-mount/tree"
    expect "the comparison finds one planted difference of each kind" "$scripts/lib/compare-trees" --self-test
}
