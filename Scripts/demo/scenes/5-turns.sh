# SPDX-License-Identifier: Apache-2.0
# Scene: two writers and a reader of one file, which know nothing of Truce, take turns.

rounds=300

all_took_turns() {
    ((${seen[torn]} == 0 && ${seen[empty]} == 0)) &&
        ((${seen[complete]} >= rounds && ${seen[first]} >= rounds && ${seen[second]} >= rounds))
}

play_turns() {
    local form where word
    local -A seen
    mkdir "$lab/turns-plain" "$lab/turns-mount"
    mount_over "$lab/turns-mount"
    for form in in-place rename-over unlink-create; do
        for where in plain mount; do
            for word in $("$demo/turns" "$lab/turns-$where" "$form" "$rounds" 120); do
                seen[${word%%=*}]=${word#*=}
            done
            say "  $form, $where: ${seen[complete]} complete reads, ${seen[torn]} torn, ${seen[empty]} empty," \
                "${seen[missing]} found no file; ${seen[first]} + ${seen[second]} rewrites; ${seen[milliseconds]} ms"
        done
        expect "$form: on the mount no read was torn or empty, and all three got $rounds turns" all_took_turns
    done
    unmount_from "$lab/turns-mount"
}
