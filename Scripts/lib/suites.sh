# SPDX-License-Identifier: Apache-2.0
# Independent suites: tests of file systems by other authors. Each suite runs in a plain directory and on mounts beside it. A
# case that fails on a mount but not in the plain directory is a failure. Needs say.sh and a lab.
#
# A suite is a function that works in the current directory as an ordinary user. It prints a line for each of its cases: 'ok
# NAME', 'failed NAME' or 'left out NAME'. The output of its programs goes to standard error.

suites=(dbench fio git git-own sqlite unison git-own-all names cpython postgresql stress-ng)
# The suites that take less than a minute in a plain directory.
short_suites=(dbench fio git git-own sqlite unison)

# Debian puts the programs of the server into a directory for their version.
postgresql=/usr/lib/postgresql/15/bin

# verdict NAME COMMAND... prints a case: whether the command succeeds.
verdict() {
    local name=$1
    shift
    printf '\n--- %s: %s\n' "$name" "$*" >&2
    if "$@" >&2; then say "ok $name"; else say "failed $name"; fi
}

suite_dbench() {
    verdict four-clients timeout 60 dbench --directory=. --timelimit=4 4
}

suite_fio() {
    local engine direct
    for engine in psync libaio io_uring mmap; do
        for direct in 0 1; do
            [[ $engine != mmap || $direct == 0 ]] || continue
            verdict "$engine-direct$direct" timeout 60 fio --name=job --directory=. --size=8m --bs=4k --rw=randrw \
                --numjobs=2 --verify=crc32c --verify_fatal=1 --ioengine="$engine" --direct="$direct" --fallocate=none \
                --group_reporting
            rm -f job.*
        done
    done
}

suite_git() {
    local number
    export GIT_CONFIG_GLOBAL=$PWD/config HOME=$PWD
    git config --global user.name somebody
    git config --global user.email somebody@example.org
    git config --global gc.auto 20
    verdict origin git init --quiet --bare origin
    for number in 1 2 3 4 5 6; do verdict "clone-$number" git clone --quiet origin "clone-$number"; done
    local workers=()
    for number in 1 2 3 4 5 6; do
        git_worker "$number" >&2 &
        workers+=($!)
    done
    for number in "${!workers[@]}"; do verdict "worker-$((number + 1))" wait "${workers[number]}"; done
    verdict fsck-origin git -C origin fsck --full --strict
    for number in 1 2 3 4 5 6; do
        verdict "fsck-$number" git -C "clone-$number" fsck --full --strict
        verdict "pushed-$number" git -C origin merge-base --is-ancestor "side-$number" "side-$number"
    done
}

# git_worker NUMBER commits, switches and pushes for a while. Other workers use the same origin at the same time.
git_worker() {
    local round
    cd "clone-$1" || return 1
    git checkout --quiet -b "side-$1"
    for round in 1 2 3 4 5 6 7 8; do
        seq "$round" $((round * 50)) >"file-$round"
        git add . && git commit --quiet -m "round $round" || return 1
        git stash --quiet --include-untracked 2>/dev/null || true
        git checkout --quiet --detach HEAD && git checkout --quiet "side-$1" || return 1
        git push --quiet origin "side-$1" || return 1
    done
}

suite_sqlite() {
    local mode writer
    for mode in delete wal; do
        sqlite3 "$mode.db" "PRAGMA journal_mode=$mode; CREATE TABLE entries(writer INT, number INT); CREATE TABLE total(n INT);
            INSERT INTO total VALUES (0);" >&2
        local writers=()
        for writer in 1 2 3 4 5 6; do
            sqlite_statements "$writer" | sqlite3 -bail "$mode.db" >&2 &
            writers+=($!)
        done
        for writer in "${!writers[@]}"; do verdict "$mode-writer-$((writer + 1))" wait "${writers[writer]}"; done
        verdict "$mode-integrity" test "$(sqlite3 "$mode.db" 'PRAGMA integrity_check')" == ok
        verdict "$mode-sums" test "$(sqlite3 "$mode.db" 'SELECT count(*), (SELECT n FROM total) FROM entries')" == '300|300'
    done
}

sqlite_statements() {
    local number
    say '.timeout 60000'
    for ((number = 0; number < 50; number++)); do
        say "BEGIN IMMEDIATE; INSERT INTO entries VALUES ($1, $number); UPDATE total SET n = n + 1; COMMIT;"
    done
}

suite_unison() {
    # unison deletes the directories that it tests with, and accepts only directories with such names.
    mkdir test-a test-b
    export HOME=$PWD UNISON=$PWD/state
    verdict selftest timeout 120 unison -ui text -batch -selftest test-a test-b
}

# Runs four programs that race for a few names. Only the errnos of a plain directory are allowed.
suite_names() {
    if "$lab/bin/name-race" --steps 1000000 .; then say "ok all-steps"; else say "failed all-steps"; fi
}

# Runs the tests of the Python modules that use files.
suite_cpython() {
    local modules=(
        test_os test_posix test_shutil test_mmap test_fcntl test_tempfile test_pathlib test_io test_zipfile test_tarfile
        test_mailbox test_dbm test_sqlite3 test_fileinput test_glob test_selectors test_largefile test_file test_fileio
        test_genericpath test_posixpath test_shelve test_bz2 test_gzip test_lzma test_zipimport test_filecmp test_stat
        test_import test_py_compile test_linecache
    )
    mkdir home temporary
    HOME=$PWD/home TMPDIR=$PWD/temporary timeout 900 python3 -m test --tempdir "$PWD/temporary" --junit-xml "$PWD/report" \
        "${modules[@]}" >&2 || true
    python3 "$scripts/lib/junit-cases" report
}

suite_postgresql() {
    export PGHOST=$lab/run PGUSER=postgres PGDATABASE=postgres HOME=$PWD
    verdict initdb "$postgresql/initdb" --pgdata=data --data-checksums --auth=trust --username=postgres
    start_postgresql start
    verdict load "$postgresql/pgbench" --quiet --initialize --scale=5
    verdict bench "$postgresql/pgbench" --client=8 --jobs=2 --time=5
    kill_postgresql
    start_postgresql recovery
    verdict sums postgresql_sums_agree
    verdict bench-again "$postgresql/pgbench" --client=8 --jobs=2 --time=3
    verdict amcheck "$postgresql/pg_amcheck" --all --install-missing --heapallindexed --parent-check
    kill -INT "$server"
    verdict stop wait "$server"
    verdict checksums "$postgresql/pg_checksums" --check --pgdata=data
}

# start_postgresql CASE starts the server and sets `server`. The server is a child of this shell, which can wait for its end. As
# a child of another process, it would seem to run after its end.
start_postgresql() {
    "$postgresql/postgres" -D data -k "$lab/run" -c listen_addresses= -c shared_buffers=32MB >&2 &
    server=$!
    verdict "$1" postgresql_answers
}

postgresql_answers() {
    local tenths
    for ((tenths = 0; tenths < 600; tenths++)); do
        "$postgresql/pg_isready" --quiet && return
        sleep 0.1
    done
    return 1
}

# Kills the server in the middle of a load, and waits until all of its processes are gone.
kill_postgresql() {
    local load tenths
    "$postgresql/pgbench" --client=8 --jobs=2 --time=20 >&2 &
    load=$!
    sleep 3
    kill -KILL "$server"
    wait "$load" "$server" || true
    for ((tenths = 0; tenths < 300; tenths++)); do
        [[ -n $(pgrep --euid "$EUID" --full '^postgres: ') ]] || break
        sleep 0.1
    done
}

# Each transaction of pgbench changes an account, a teller and a branch by the same amount. So the three sums must be equal.
postgresql_sums_agree() {
    local sums
    sums=$("$postgresql/psql" --no-align --tuples-only --command='SELECT count(DISTINCT s) FROM (
        SELECT sum(abalance) s FROM pgbench_accounts UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
        UNION ALL SELECT sum(bbalance) FROM pgbench_branches) sums')
    [[ $sums == 1 ]]
}

suite_stress-ng() {
    local name status
    for name in $(stress-ng --class 'filesystem?' 2>&1 | sed -n "s/^class 'filesystem' stressors: //p"); do
        status=0
        printf '\n--- %s\n' "$name" >&2
        timeout 60 stress-ng "--$name" 2 --verify --timeout 2s --temp-path . >&2 || status=$?
        case $status in
            0) say "ok $name" ;;
            # The test cannot run with this kernel, or not as an ordinary user.
            3 | 4 | 6) say "left out $name" ;;
            *) say "failed $name" ;;
        esac
        rm -rf tmp-stress-ng-*
    done
}

# prepare_suites builds what the suites need beyond the packages.
prepare_suites() {
    case "$short ${chosen_suites[*]} " in
        --short*) ;;
        *" git-own"*) prepare_git_tests ;;
    esac
    case " ${chosen_suites[*]} " in
        *" names "*) cc -std=gnu11 -O1 -o "$lab/bin/name-race" "$scripts/../Tests/Workers/name-race/"*.c ;;
    esac
}

# run_suites KIND... runs the suites in a plain directory and on mounts of each kind. It prints the cases that fail only on a
# mount. Returns 1 if there are any.
run_suites() {
    local suite kind kinds=("$@") failed=0
    mkdir "$lab/suites"
    for suite in "${chosen_suites[@]}"; do
        [[ -z $short || $suite != git-own ]] || continue
        heading "$suite: plain"
        run_suite "$suite" plain
        suite_has_run "$suite" || failed=1
        for kind in "${kinds[@]}"; do
            [[ $kind != own ]] || takes_all_mounts "$suite" || continue
            heading "$suite: $kind"
            run_suite "$suite" "$kind"
            suite_agrees "$suite" "$kind" || failed=1
        done
    done
    return "$failed"
}

# Returns whether a suite also runs on a user's own mount. That mount would only repeat the daemon's data mode, so the longest
# suites and short runs leave it out.
takes_all_mounts() {
    [[ -z $short && $1 != git-own-all && $1 != names ]]
}

run_suite() {
    local result=$lab/suites/$1-$2 from=$SECONDS
    tree=$lab/tree acting=(env)
    mkdir "$tree" "$lab/mounted" "$tree/asked"
    if ((EUID == 0)); then
        acting=(setpriv --reuid="$somebody" --regid="$somebody" --clear-groups env)
        chown "$somebody:$somebody" "$tree" "$tree/asked"
    fi
    mount_tree "$2"
    as_owner lab="$lab" scripts="$readable" bash -euo pipefail -c 'source "$scripts/lib/say.sh"; source "$scripts/lib/suites.sh"
        source "$scripts/lib/git-suites.sh"
        cd "$1"; suite_$2' suite "$asked/asked" "$1" >"$result" 2>"$result.log" || say "failed to its end" >>"$result"
    say "$(grep --count '^ok ' "$result" || true) of $(wc --lines <"$result") cases in $((SECONDS - from)) s"
    # Only root can unmount a mount of root, and root may have to unmount the mount of a user.
    acting=(env)
    unmount_tree
    rm -rf --one-file-system "$tree"
    rmdir "$lab/mounted"
    tree=
}

# Returns whether the suite has run in the plain directory. If it has not, its results on mounts mean nothing.
suite_has_run() {
    local plain=$lab/suites/$1-plain
    if grep --quiet '^ok ' "$plain" && ! grep --quiet --line-regexp 'failed to its end' "$plain"; then return 0; fi
    say "$1 did not run in the plain directory"
    tail --lines=40 "$plain.log"
    return 1
}

suite_agrees() {
    local plain=$lab/suites/$1-plain asked=$lab/suites/$1-$2 name ended=0
    while read -r name; do
        if is_known_difference "$1" "$name"; then continue; fi
        say "$1, $2: failed $name, which did not fail in the plain directory"
        ended=1
    done < <(comm -23 <(cases_that failed "$asked") <(cases_that failed "$plain"))
    while read -r name; do
        say "$1, $2: did not come to $name, which succeeded in the plain directory"
        ended=1
    done < <(comm -23 <(cases_that ok "$plain") <(cases_that 'ok|failed|left out' "$asked"))
    ((ended == 0)) || tail --lines=40 "$asked.log"
    return "$ended"
}

# cases_that VERDICTS FILE prints the names of the cases with one of these verdicts, sorted.
cases_that() {
    sed -n -E "s/^($1) //p" "$2" | sort -u
}

# Returns whether a failure is known. epoll refuses a regular file of a plain directory, but accepts that of any FUSE file
# system.
is_known_difference() {
    [[ $1 == cpython && $2 == *test_selectors* && $2 == *test_register_file* ]]
}
