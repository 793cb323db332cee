# SPDX-License-Identifier: Apache-2.0
# The workloads of Scripts/bench, in the order in which they run. Needs bench-trees.sh.

# The workload `presenter` comes first. If the daemon fails in it, this is noticed at once and not after minutes.
workloads=(
    presenter hand-over parked read-warm read-cold read-mapped read-places write overwrite write-new write-places
    open open-4 open-one open-crowd create create-write stat-warm stat-fresh readdir readdir-small list-fresh rename
    git-status git-status-fresh grep grep-fresh git-clone make sqlite-bulk sqlite-off sqlite-full untar
)
# The deletions come last. For some minutes after a deletion, ext4 does not reuse the inode numbers, and checks each of them for
# each new file. Creating a file would then seem slower than it is.
deletions=(unlink remove)

choose_sizes() {
    if [[ -z $quick ]]; then
        mebibytes=128 places=10000 directories=100 files=50 names=2000 git_directories=40 git_files=50 passes=5
        presented=9 handed=9 commits=200 units=24 crowd_directories=100 crowd_files=1000 parked=8000
    else
        mebibytes=8 places=100 directories=5 files=20 names=50 git_directories=4 git_files=5 passes=2
        presented=5 handed=2 commits=5 units=3 crowd_directories=5 crowd_files=20 parked=100
    fi
    few_passes=$(((passes + 2) / 3))
}

is_measured() {
    [[ " ${workloads[*]} ${deletions[*]} " == *" $1 "* ]]
}

# Returns whether a workload makes sense in a tree. For `hand-over`, Truce hands over a claim, and a plain directory hands over
# a lock of the kernel.
fits() {
    case $1 in
        presenter | parked) is_truce "$2" ;;
        hand-over) is_truce "$2" || [[ $2 == @(native|control) ]] ;;
        *) true ;;
    esac
}

# command_for ROUND WORKLOAD TREE sets `command` to the command that measures the workload.
command_for() {
    local root=$lab/$3 locks=1
    ! is_truce "$3" || locks=0
    case $2 in
        read-warm | read-mapped) command=("$2" "$root" big "$few_passes") ;;
        read-cold) command=(read-cold "$root" big) ;;
        read-places) command=(read-places "$root" big "$places") ;;
        write | overwrite) command=("$2" "$root" written) ;;
        write-new) command=(write-new "$root" "new-$1" $((mebibytes / 2))) ;;
        write-places) command=(write-places "$root" written "$places") ;;
        open | open-crowd) command=(open "$root/tree" "$directories" "$files" 4096 1) ;;
        open-4) command=(open "$root/tree" "$directories" "$files" 4096 4) ;;
        open-one) command=(open-one "$root" unpresented $((directories * files))) ;;
        stat-warm) command=(stat-warm "$root/tree" "$directories" "$files" "$passes") ;;
        stat-fresh) command=(stat-fresh "$root/tree" "$directories" "$files") ;;
        list-fresh) command=(list "$root/tree" "$directories" "$files") ;;
        readdir) command=(readdir "$root" names "$names" "$passes") ;;
        readdir-small) command=(readdir-small "$root/tree" "$directories" "$files" "$passes") ;;
        create) command=(create "$root" "created-$1" "$names" 0) ;;
        create-write) command=(create "$root" "written-$1" "$names" 4096) ;;
        rename) command=(rename "$root" names "$names" "$1") ;;
        unlink) command=(unlink "$root" "created-$1" "$names") ;;
        remove) command=(once "$root" . rm -r "unpacked-$1") ;;
        git-status) command=(run "$root/git" "$passes" git status --porcelain) ;;
        git-status-fresh) command=(once "$root" git git status --porcelain) ;;
        grep) command=(run "$root/git" "$passes" grep --recursive --count 'file 7$' --exclude-dir=.git) ;;
        grep-fresh) command=(once "$root" git grep --recursive --count 'file 7$' --exclude-dir=.git) ;;
        git-clone) command=(once "$root" "clone-$1" git clone --quiet --no-local "$lab/origin" .) ;;
        make) command=(once "$root" "build-$1" make --silent --jobs=2 --file=../program/Makefile) ;;
        sqlite-bulk) command=(once "$root" "bulk-$1" sqlite3 data.db ".read $lab/bulk.sql") ;;
        sqlite-*) command=(once "$root" "$2-$1" sqlite3 data.db ".read $lab/commits-${2#sqlite-}.sql") ;;
        untar) command=(once "$root" "unpacked-$1" tar --extract --file="$lab/files.tar") ;;
        presenter) command=(presenter "$root" presented unpresented "$presented") ;;
        hand-over) command=(hand-over "$root" handed "$handed" "$locks") ;;
    esac
    command=("$client" "${command[@]}")
}

# measure_beside_crowd TREE runs `command`. In a tree of Truce, 100,000 other files have presenters meanwhile.
measure_beside_crowd() {
    local ready
    if ! is_truce "$1"; then
        "${command[@]}"
        return
    fi
    coproc { exec "$client" crowd "$lab/$1" "$crowd_directories" "$crowd_files" 2>&1; }
    local process=$! output=${COPROC[0]} input=${COPROC[1]}
    read -r ready <&"$output"
    [[ $ready == ready ]] || end_helper "$process" "$ready"
    "${command[@]}" || end_helper "$process" "$2 failed in $1"
    exec {input}>&-
    wait "$process"
}

# end_helper PROCESS WORDS... ends the script with an error, after it has ended the process.
end_helper() {
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
    shift
    refuse "bench: $*"
}

# of_process PROCESS NAME prints the number with this name in the status of a process.
of_process() {
    sed -n "s/^$2:[[:space:]]*\([0-9]*\).*/\1/p" "/proc/$1/status"
}

# measure_parked TREE prints the nanoseconds for one of many waiting opens, from the release of their file to the last open. It
# also notes what the waiting opens cost the daemon.
measure_parked() {
    local line daemon before threads waited now tries
    daemon=$(status_of "$1" .pid) waited=$(status_of "$1" .counters.waited)
    before=$(of_process "$daemon" RssAnon) threads=$(of_process "$daemon" Threads)
    coproc { exec "$client" parked "$lab/$1" handed "$parked" 2>&1; }
    local process=$! output=${COPROC[0]} input=${COPROC[1]}
    read -r line <&"$output"
    [[ $line == begun ]] || end_helper "$process" "$line"
    # Waits 8 s at most, because opens no longer wait for a program that has held a file for ten seconds.
    for ((tries = 0; tries < 80; tries++)); do
        now=$(status_of "$1" .counters.waited)
        ((now - waited < parked)) || break
        sleep 0.1
    done
    ((now - waited >= parked)) || end_helper "$process" "only $((now - waited)) of $parked opens were parked in time"
    printf '%d opens parked (%s)\t%d bytes each, %d threads more\n' "$parked" "$1" \
        $((($(of_process "$daemon" RssAnon) - before) * 1024 / parked)) \
        $(($(of_process "$daemon" Threads) - threads)) >>"$lab/facts"
    say go >&"$input"
    read -r line <&"$output"
    wait "$process" || refuse "bench: $line"
    say "$line"
}

# measure ROUND WORKLOAD TREE measures a workload, and writes the figures.
measure() {
    local command=() figures rows=("$2") index
    # The daemon's memory is measured, or its caches must be empty, so the daemon must be new.
    if [[ $2 == @(*-fresh|parked) ]]; then
        unmount_tree "$3"
        mount_tree "$3"
    fi
    [[ $3 != bare ]] || spare_descriptors
    # Data that was written before is written to the disk now, and not during the measurement.
    sync --file-system "$lab"
    command_for "$1" "$2" "$3"
    case $2 in
        presenter)
            rows=(presenter-echo presenter-asked presenter-unpresented)
            if [[ $3 == passthrough ]]; then command=(as_root "${command[@]}"); fi
            figures=$("${command[@]}" <&"${files_below[$3]}")
            ;;
        open-crowd) figures=$(measure_beside_crowd "$3" "$2") ;;
        parked) figures=$(measure_parked "$3") ;;
        *) figures=$("${command[@]}" <&"${files_below[$3]}") ;;
    esac
    mapfile -t figures <<<"$figures"
    ((${#figures[@]} == ${#rows[@]})) || refuse "bench: $2 printed ${#figures[@]} figures instead of ${#rows[@]}."
    for index in "${!rows[@]}"; do
        [[ ${figures[$index]} =~ ^[0-9]+\.[0-9]$ ]] || refuse "bench: $2 printed '${figures[$index]}' in $3."
        printf '%s\t%s\t%s\t%s\n' "$1" "${rows[$index]}" "$3" "${figures[$index]}" >>"$lab/figures"
    done
}

# Sets `order` to the trees in random order. It does not run in a subshell, because RANDOM follows the seed only in this shell.
shuffle_trees() {
    local index other tree
    order=("${trees[@]}")
    for ((index = ${#order[@]} - 1; index > 0; index--)); do
        other=$((RANDOM % (index + 1)))
        tree=${order[$index]}
        order[$index]=${order[$other]}
        order[$other]=$tree
    done
}

# measure_rounds WORKLOAD... measures the workloads in all trees, in several rounds.
measure_rounds() {
    local round workload tree order
    for ((round = 1; round <= rounds; round++)); do
        for workload in "$@"; do
            shuffle_trees
            for tree in "${order[@]}"; do
                ! fits "$workload" "$tree" || measure "$round" "$workload" "$tree"
            done
        done
        printf 'round %d of %d  [%d:%02d]\n' "$round" "$rounds" $((SECONDS / 60)) $((SECONDS % 60))
    done
}

measure_all() {
    heading "Measuring in $rounds rounds, seed $seed"
    RANDOM=$seed
    measure_rounds "${workloads[@]}"
    ((${#deletions[@]} > 0)) || return 0
    say "${deletions[*]}"
    measure_rounds "${deletions[@]}"
}
