# SPDX-License-Identifier: Apache-2.0
# Programs that store versions, and programs that apply differences. See registry.sh. A repository's own files lie beside the
# folder. So the folder's presenter is told only of the document.

# settle_git sets an author, and makes a repository of the folder's parent directory, with three states of the document.
settle_git() {
    git config --global user.name author
    git config --global user.email author@example.org
    git config --global init.defaultBranch main
    git config --global safe.directory '*'
    git -C .. init --quiet
    make_text
    say other >other.txt
    # The file is older than the index, so that git knows without reading that the file has not changed.
    touch --date=2020-01-01 other.txt
    git add .
    git commit --quiet --message=0
    local round
    for round in 1 2; do
        new=word$round write_new >"$document"
        git commit --quiet --all --message="$round"
        git tag "state$round"
    done
    git checkout --quiet -b work HEAD~2
}

idiom git-checkout git 'git checkout of a commit'
make_git-checkout() { settle_git; }
save_git-checkout() { git checkout --quiet --force "state$round"; }

idiom git-restore git 'git restore'
make_git-restore() { settle_git; }
save_git-restore() { git restore --source="state$round" "$document"; }

idiom git-reset git 'git reset --hard'
make_git-reset() { settle_git; }
save_git-reset() { git reset --quiet --hard "state$round"; }

idiom git-merge git 'git merge'
make_git-merge() { settle_git; }
save_git-merge() { git merge --quiet "state$round"; }

idiom git-apply git 'git apply'
make_git-apply() { settle_git; }
save_git-apply() {
    git diff --no-color "state$round~1" "state$round" >../change
    git -C .. apply change
}

idiom git-am git 'git am'
make_git-am() { settle_git; }
save_git-am() { git format-patch --stdout -1 "state$round" | git am --quiet; }

# The first save removes the change, and the second save restores it.
idiom git-stash git 'git stash'
make_git-stash() {
    settle_git
    new=word1 write_new >"$document"
}
save_git-stash() { if ((round == 1)); then git stash --quiet; else git stash pop --quiet; fi; }

idiom git-config git 'git config --file' document=document.ini
make_git-config() { printf '[section]\n\tname = word0\n' >"$document"; }
save_git-config() { git config --file "$document" section.name "$new"; }

settle_hg() {
    printf '[ui]\nusername = author\n' >"$HOME/.hgrc"
    hg --cwd .. init
    make_text
    say other >other.txt
    touch --date=2020-01-01 other.txt
    hg --quiet commit --addremove --message=0
    local round
    for round in 1 2; do
        new=word$round write_new >"$document"
        hg --quiet commit --message="$round"
    done
    hg --quiet update 0
}

idiom hg-update hg 'hg update'
make_hg-update() { settle_hg; }
save_hg-update() { hg --quiet update "$round"; }

idiom hg-revert hg 'hg revert'
make_hg-revert() { settle_hg; }
save_hg-revert() { hg --quiet revert --rev "$round" "$document"; }

idiom rcs co,ci 'co -l of RCS'
make_rcs() {
    mkdir RCS
    make_text
    local round
    ci -q -u -t-text -w1 -d'2020-01-01 00:00' "$document"
    for round in 1 2; do
        co -q -l "$document"
        new=word$round write_new >"$document"
        ci -q -u -m"$round" -w1 -d"2020-01-0$((round + 1)) 00:00" "$document"
    done
    co -q -f -r1.1 "$document"
    chmod u+w "$document"
}
save_rcs() { co -q -f -r"1.$((round + 1))" "$document"; }

# make_change writes the difference between this state of the document and the next state.
make_change() {
    write_new >../new
    diff "$@" "$document" ../new >../change || true
}

idiom patch patch,diff 'patch'
save_patch() {
    make_change -u
    patch --silent "$document" ../change
}

idiom patch-b patch,diff 'patch -b'
save_patch-b() {
    make_change -u
    patch --silent --backup "$document" ../change
}

idiom patch-ed patch,diff,ed 'patch with a script for ed'
save_patch-ed() {
    make_change --ed
    patch --silent --ed "$document" ../change
}

idiom quilt quilt 'quilt push'
make_quilt() {
    make_text
    mkdir ../patches
    local round
    for round in 1 2; do
        {
            printf -- '--- a/folder/%s\n+++ b/folder/%s\n@@ -1,3 +1,3 @@\n' "$document" "$document"
            printf ' first line\n-word%d in the middle\n+word%d in the middle\n last line\n' $((round - 1)) "$round"
        } >"../patches/$round"
    done
    printf '%s\n' 1 2 >../patches/series
}
save_quilt() { (cd .. && quilt push -q); }
