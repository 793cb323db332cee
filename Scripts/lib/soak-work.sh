# SPDX-License-Identifier: Apache-2.0
# The work of the programs of Scripts/soak. Each program works in a directory of its own and in a shared directory. At its end,
# each round checks that it has worked. The first command that fails ends its worker. Needs the variables `shared`, `end` and
# `number`.

# work KIND makes rounds until the time is over, and prints the number of rounds.
work() {
    local rounds=0 status
    while ((SECONDS < end)); do
        # In the subshell, `set -e` has an effect only if the shell does not test the subshell's status.
        set +e
        (
            set -e
            "round_$1" "$rounds"
        )
        status=$?
        set -e
        if ((status != 0)); then
            printf 'round %d of %s %d failed with %d\n' "$rounds" "$1" "$number" "$status"
            return 1
        fi
        # Each round adds one line to a file to which all workers append.
        printf '%s %d %d\n' "$1" "$number" "$rounds" >>"$shared/log"
        rounds=$((rounds + 1))
    done
    printf '%d rounds\n' "$rounds"
}

# some_files DIRECTORY COUNT makes files with random contents, and writes their checksums to DIRECTORY.sums.
some_files() {
    local file
    rm -rf "$1"
    mkdir "$1"
    for ((file = 0; file < $2; file++)); do
        head --bytes=$((RANDOM + 1)) /dev/urandom >"$1/$file"
    done
    (cd "$1" && sha256sum -- *) >"$1.sums"
}

round_git() {
    rm -rf origin clone
    git init --quiet --bare origin
    git clone --quiet origin clone 2>/dev/null
    some_files clone/files 20
    git -C clone add .
    git -C clone commit --quiet --message "round $1"
    git -C clone mv files moved
    git -C clone commit --quiet --message "moved"
    git -C clone checkout --quiet HEAD~1
    (cd clone/files && sha256sum --check --quiet ../files.sums)
    git -C clone push --quiet origin HEAD:refs/heads/main
    git -C clone gc --quiet
    git -C origin fsck --full --strict
    git -C clone fsck --full --strict
}

round_tar() {
    some_files tree 60
    tar --create --file=packed.tar tree tree.sums
    rm -rf unpacked
    mkdir unpacked
    tar --extract --directory=unpacked --file=packed.tar
    (cd unpacked/tree && sha256sum --check --quiet ../tree.sums)
    rm -rf tree unpacked packed.tar
}

round_sqlite() {
    local database=own.db
    ((number % 2 == 0)) || database=$shared/shared.db
    sqlite3 -cmd '.timeout 60000' "$database" "CREATE TABLE IF NOT EXISTS rows(worker INT, round INT);
        BEGIN IMMEDIATE; INSERT INTO rows VALUES ($number, $1); COMMIT;"
    [[ $(sqlite3 -cmd '.timeout 60000' "$database" "SELECT count(*) FROM rows WHERE worker = $number") == $(($1 + 1)) ]]
    [[ $(sqlite3 -cmd '.timeout 60000' "$database" 'PRAGMA integrity_check') == ok ]]
}

round_compile() {
    local file
    printf 'objects = a.o b.o c.o main.o\nprogram: $(objects)\n\tcc -o $@ $(objects)\n' >Makefile
    for file in a b c; do printf 'int %s(void) { return %d; }\n' "$file" "$1" >"$file.c"; done
    printf '#include <stdio.h>\nint a(void), b(void), c(void);\nint main(void) { printf("%%d\\n", a() + b() + c()); }\n' >main.c
    make --silent --jobs=2
    [[ $(./program) == $((3 * $1)) ]]
    rm -f ./*.o program
}

round_vim() {
    local document=$shared/vim-$number.txt
    tmux -S "$socket" new-session -d -s "vim-$number" "vim -u NONE -n '$document'"
    tmux -S "$socket" send-keys -t "vim-$number" Go "line $1" Escape ":wq" Enter
    until_gone tmux -S "$socket" has-session -t "vim-$number"
    [[ $(tail -1 "$document") == "line $1" ]]
}

# until_gone COMMAND... repeats the command until it fails. It returns an error if the command still succeeds after a minute.
until_gone() {
    local tenths
    for ((tenths = 0; tenths < 600; tenths++)); do
        "$@" 2>/dev/null || return 0
        sleep 0.1
    done
    return 1
}

round_emacs() {
    local document=$shared/emacs-$number.txt
    emacs -Q --batch --eval "(progn (find-file \"$document\") (goto-char (point-max)) (insert \"line $1\\n\") (save-buffer))" \
        2>/dev/null
    [[ $(tail -1 "$document") == "line $1" ]]
}

round_rsync() {
    some_files tree 40
    rsync --archive --delete tree/ copy/
    (cd copy && sha256sum --check --quiet ../tree.sums)
    rm tree/1 tree/2
    rsync --archive --delete --checksum tree/ copy/
    diff --recursive tree copy
}

round_read() {
    grep --recursive --quiet line "$shared" || true
    find "$shared" -ignore_readdir_race -type f -size +0 >/dev/null
    wc --lines "$shared/log" >/dev/null
}

round_shell() {
    printf 'round %d\n' "$1" >new
    mv new name
    cp name copy
    ln -f copy link
    printf 'more\n' >>"link"
    [[ $(wc --lines <copy) == 2 && $(cat name) == "round $1" ]]
    mkdir -p deep/er/still
    mv deep other
    rm -r other name copy link
}
