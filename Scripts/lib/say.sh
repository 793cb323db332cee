# SPDX-License-Identifier: Apache-2.0
# Prints messages while a script works.

heading() {
    printf '\n== %s  [%d:%02d]\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}

say() {
    printf '%s\n' "$*"
}

# refuse WORDS... prints one sentence on standard error and ends the script. `refusal_code` is the exit status.
refuse() {
    printf '%s\n' "$*" >&2
    exit "${refusal_code:-1}"
}
