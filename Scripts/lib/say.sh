# SPDX-License-Identifier: Apache-2.0
# Output of a script while it works.

heading() {
    printf '\n== %s  [%d:%02d]\n' "$*" $((SECONDS / 60)) $((SECONDS % 60))
}

say() {
    printf '%s\n' "$*"
}

# refuse WORDS... ends the script with one sentence on standard error; `refusal_code` is the exit status.
refuse() {
    printf '%s\n' "$*" >&2
    exit "${refusal_code:-1}"
}
