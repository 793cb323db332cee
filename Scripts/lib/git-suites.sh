# SPDX-License-Identifier: Apache-2.0
# Runs git's own tests, from the source package of the installed git. The package is fetched with a separate list of package
# sources, so that the machine's settings stay the same. If the source is not available, the commands of those tests are run
# instead. Needs say.sh and a lab.

# The test scripts about names: branches, switching, cleaning, pruning.
git_scripts=(t3200 t5304 t7201 t7300)
# The test scripts about names, files or locks: all scripts except those about servers, mail and other version control systems.
git_all_scripts=('t1*' 't2*' 't3*' t5510 t6500 't7*')
# The options with which the parts of git that the tests need are built. No optional library is needed.
git_options=(NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_OPENSSL=1 NO_PYTHON=1 NO_TCLTK=1 CC=cc CFLAGS=-O0)

suite_git-own() {
    run_git_scripts "${git_scripts[@]}"
}

suite_git-own-all() {
    run_git_scripts "${git_all_scripts[@]}"
}

# Fetches and builds into $lab/git what the test scripts need. If that fails, $lab/git does not exist.
prepare_git_tests() {
    heading "Fetching and building git's own tests"
    mkdir "$lab/git-source"
    if (cd "$lab/git-source" && fetch_git_source && build_git_tests) >"$lab/git-source/log" 2>&1; then
        mv "$lab/git-source" "$lab/git"
        chmod -R go+rX "$lab/git"
    else
        tail --lines=5 "$lab/git-source/log"
        say "The source of the installed git cannot be had: a few of the same commands are run instead."
        rm -rf "$lab/git-source"
    fi
}

# Fetches the source of exactly the installed version, from the package archives that the machine uses.
fetch_git_source() {
    local version options=(
        --option "Dir::Etc::SourceList=$PWD/sources.list" --option Dir::Etc::SourceParts=-
        --option "Dir::State::Lists=$PWD/lists" --option "Dir::Cache=$PWD/cache" --option APT::Sandbox::User=root
    )
    version=$(dpkg-query --show --showformat '${source:Version}' git) || return
    list_git_sources >sources.list
    mkdir -p lists/partial cache/archives/partial
    # It does no harm if one of several archives does not answer.
    apt-get "${options[@]}" update || true
    apt-get "${options[@]}" --only-source source "git=$version" && mv git-*/ source
}

list_git_sources() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -r $keys ]] && keys="[signed-by=$keys] " || keys=
    # shellcheck disable=SC2016  # apt-get, not the shell, replaces these names.
    apt-get indextargets --no-release-info --format "deb-src $keys"'$(REPO_URI) $(RELEASE) $(COMPONENT)' \
        'Created-By: Packages' 'Component: main' | sort -u
}

build_git_tests() {
    make --directory=source --jobs="$(nproc)" "${git_options[@]}" t/helper/test-tool &&
        make --directory=source/templates "${git_options[@]}" &&
        # The installed git was built with this library. The tests read this from GIT-BUILD-OPTIONS.
        make --directory=source "${git_options[@]}" USE_LIBPCRE2=1 GIT-BUILD-OPTIONS
}

# run_git_scripts PATTERN... prints the cases of the matching scripts. Their repositories are in the current directory.
run_git_scripts() {
    local results pattern
    if [[ ! -d $lab/git ]]; then
        git_commands
        return
    fi
    results=$(mktemp -d)
    for pattern in "$@"; do
        find "$lab/git/source/t" -maxdepth 1 -name "$pattern-*.sh" -printf '%f\n'
    done | sort | xargs --max-procs="$(nproc)" --replace=SCRIPT \
        "$scripts/lib/git-script" "$lab/git/source" "$PWD" "$results" SCRIPT >&2
    cat "$results"/*.cases
    rm -rf "$results"
}

# Runs git commands. If a command removes or renames a file before it ends, the next command must not find the file.
git_commands() {
    export GIT_CONFIG_GLOBAL=$PWD/config HOME=$PWD
    git config --global user.name somebody
    git config --global user.email somebody@example.org
    verdict repository git_repository
    local command round
    for command in rename checkout clean remove stash branch; do
        for round in {1..20}; do verdict "$command-$round" "git_$command" "$round"; done
    done
}

git_repository() (
    git init --quiet --initial-branch=main repository
    cd repository && touch first second && git add . && git commit --quiet --message=main &&
        git checkout --quiet -b other && touch third fourth && git add . && git commit --quiet --message=other
)

git_rename() (
    cd repository && touch "t$1" && mv "t$1" "t$1~" && ls -l && rm "t$1~"
)

git_checkout() (
    cd repository && git checkout --quiet main && git add . && git checkout --quiet other && git add .
)

git_clean() (
    cd repository && git checkout --quiet main && [[ -z $(git clean -n) ]] && git checkout --quiet other
)

git_remove() (
    cd repository && git rm --quiet third && cp -R . "../copy-$1" && git reset --quiet --hard
)

git_stash() (
    cd repository && touch "new$1" && git stash --quiet --include-untracked && find . -ls && git stash drop --quiet
)

git_branch() (
    cd repository && git branch s/s && git branch s/t && git branch -d s/t && git branch -m s/s s && git branch -d s
)
