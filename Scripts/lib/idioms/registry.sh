# SPDX-License-Identifier: Apache-2.0
# The programs of Scripts/idioms. Needs say.sh.
#
# An entry is a line `idiom NAME PROGRAM,... TITLE [KEY=VALUE]...` and the function save_NAME, which makes the program save the
# document. This function works in the document's folder and replaces "$old" by "$new". It may store other files beside the
# folder, in .. . If the document is not a text, make_NAME makes it. If there is a before_NAME, another program runs it before
# each save. The keys:
#
#   document=NAME    the name of the document, if not document.txt
#   contents=any     the program writes something else each time: contents are not compared
#   asks=N           the right number of questions to relinquish in one save, if not one
#   known=PATTERN    known errors of the entry, as a pattern of the shell
#   reason=WORDS     the reason for one of these, for the table

declare -A idiom_programs idiom_title idiom_document idiom_contents idiom_asks idiom_known idiom_reason
idiom_names=()

idiom() {
    local name=$1 key
    idiom_names+=("$name")
    idiom_programs[$name]=$2 idiom_title[$name]=$3 idiom_document[$name]=document.txt
    shift 3
    for key in "$@"; do
        case $key in
            document=*) idiom_document[$name]=${key#*=} ;;
            contents=any) idiom_contents[$name]=any ;;
            known=*) idiom_known[$name]=${key#*=} ;;
            asks=*) idiom_asks[$name]=${key#*=} ;;
            reason=*) idiom_reason[$name]=${key#*=} ;;
            *) refuse "idioms: the entry of $name has '$key'" ;;
        esac
    done
}

# Makes the document of an entry that has no make_NAME.
make_text() {
    printf 'first line\nword0 in the middle\nlast line\n' >"$document"
}

# Writes the text of this save to another place, for programs that copy a file from there.
write_new() {
    printf 'first line\n%s in the middle\nlast line\n' "$new"
}

# keys COMMAND KEYS... runs a command at a terminal. It types each of the keys when the screen no longer changes.
keys() {
    local command=$1 typed=../typed screen=../screen process key
    shift
    rm -f "$typed" "$screen"
    mkfifo "$typed"
    script --quiet --return --flush --command "stty rows 24 cols 80; export TERM=xterm; $command" "$screen" \
        <"$typed" >/dev/null &
    process=$!
    exec {terminal}>"$typed"
    for key in "$@"; do
        wait_for_screen "$process" "$screen"
        printf '%b' "$key" >&"$terminal"
    done
    wait "$process"
    exec {terminal}>&-
}

# Waits until the screen has not changed for 200 ms or the program has ended, for at most 4 s.
wait_for_screen() {
    local size last=-1 tenths still=0
    for ((tenths = 0; tenths < 40 && still < 2; tenths++)); do
        sleep 0.1
        [[ -d /proc/$1 ]] || return 0
        size=$(stat --format %s "$2" 2>/dev/null || say 0)
        if ((size == last && size > 0)); then still=$((still + 1)); else still=0; fi
        last=$size
    done
}

for entries in "$idioms"/entries/*.sh; do
    # shellcheck disable=SC1090  # The sourced files are all files of the directory.
    source "$entries"
done
