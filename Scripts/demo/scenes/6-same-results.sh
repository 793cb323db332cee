# SPDX-License-Identifier: Apache-2.0
# Programs get the results they would get without Truce.

same_trees() {
    "$scripts/lib/compare-trees" "$1" "$2" --times-below originals --times-below unpacked/originals \
        --times-below synced --times-below copied --any-contents project/.git/index
}

play_same_results() {
    # In a directory of its own: the root of a mounted source holds .truce as well.
    mkdir -p "$lab/work-plain" "$lab/work-mount/tree"
    "$demo/real-work" "$lab/work-plain"
    mount_over "$lab/work-mount"
    "$demo/real-work" "$lab/work-mount/tree"
    expect "seen through the mount, the tree is the plain one" same_trees "$lab/work-plain" "$lab/work-mount/tree"
    unmount_from "$lab/work-mount"
    expect "so it is in the directory below" same_trees "$lab/work-plain" "$lab/work-mount/tree"
    expect "the comparison finds one planted difference of each kind" "$scripts/lib/compare-trees" --self-test
}
