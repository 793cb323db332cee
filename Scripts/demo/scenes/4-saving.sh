# SPDX-License-Identifier: Apache-2.0
# Scene: a presenter may save through the mount by any method while others wait for the save.

saving_rounds=10

play_saving() {
    local way
    mkdir "$lab/saving"
    mount_over "$lab/saving" ask-again=0ms
    for way in in-place rename-over rename-aside unlink-create child; do
        show_way "$way"
    done
    expect_nobody_forced "$lab/saving"
    unmount_from "$lab/saving"
}

# show_way WAY shows that each step waits for saves by one method of the worker presented-saves.
show_way() {
    local step question figures found='' good=yes
    for step in open unlink rename truncate; do
        figures=$(present_and_save "$1" "$step" || true)
        question=relinquishToWriter
        [[ $step != open ]] || question=save
        [[ $(number rounds "$figures") == "$saving_rounds" && $(number failures "$figures") == 0 ]] &&
            # No deadline of a presenter has ended a wait, because the shortest deadline is 5 s.
            (($(number longest "$figures") < 5000)) || good=
        # The presenter was asked in each round, and the step waited for the answer.
        (($(number "$question" "$figures") >= saving_rounds)) || good=
        found+=", $step $(number longest "$figures") ms"
    done
    expect "$1: $saving_rounds saves while each of these waits, longest wait:${found#,}" test -n "$good"
}

# Runs the worker with a time limit, so that a deadlock is noticed.
present_and_save() {
    (cd "$lab/tmp" && exec timeout --foreground 60 "$scripts/../Tests/Workers/presented-saves" \
        "$("${truce[@]}" socket "$lab/saving")" "$lab/saving" "$1" "$2" "$saving_rounds")
}

# number NAME JSON prints the number with this name in the JSON text; -1 if there is none.
number() {
    if [[ $2 =~ \"$1\":\ *([0-9]+) ]]; then say "${BASH_REMATCH[1]}"; else say -1; fi
}
