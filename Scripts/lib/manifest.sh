# SPDX-License-Identifier: Apache-2.0
# Puts files where they belong, and remembers in a manifest what it put there. Needs say.sh and root.sh; `destination`
# is the directory everything goes below, `manifest` the path of the manifest there.
#
# A line of the manifest is KIND, what it is, and its path, with tabs between: `file` and a checksum, `link` and where
# to, `directory` and `-` for one that was made. Nothing is replaced or removed but what is as the manifest has it.

recorded=() recorded_paths=() recorded_sources=()
known=''

# record_file SOURCE PATH
record_file() {
    local sum
    sum=$(sha256sum <"$1")
    recorded+=("file"$'\t'"${sum%% *}"$'\t'"$2") recorded_paths+=("$2") recorded_sources+=("$1")
}

# record_link TARGET PATH
record_link() {
    recorded+=("link"$'\t'"$1"$'\t'"$2") recorded_paths+=("$2") recorded_sources+=('')
}

read_manifest() {
    known=''
    [[ ! -f $destination$manifest ]] || known=$(<"$destination$manifest")
}

# The line that a manifest would have for what is at a path now; nothing if nothing is there.
present() {
    local path=$destination$1 sum
    if [[ -L $path ]]; then
        printf 'link\t%s\t%s\n' "$(readlink "$path")" "$1"
    elif [[ -d $path ]]; then
        printf 'directory\t-\t%s\n' "$1"
    elif [[ -f $path ]]; then
        sum=$(sha256sum <"$path") || sum=unreadable
        printf 'file\t%s\t%s\n' "${sum%% *}" "$1"
    elif [[ -e $path ]]; then
        printf 'other\t-\t%s\n' "$1"
    fi
}

is_known() {
    grep --quiet --line-regexp --fixed-strings -- "$1" <<<"$known"
}

# Ends the script before anything is changed if something of somebody else's is in the way.
check_recorded() {
    local path line
    for path in "${recorded_paths[@]}"; do
        line=$(present "$path")
        [[ -z $line ]] || is_known "$line" ||
            refuse "install: $destination$path is there already and was not installed by this script; nothing was changed"
    done
    [[ -z $(present "$manifest") || -n $known ]] ||
        refuse "install: $destination$manifest is there already and is no manifest; nothing was changed"
}

# require_rights PATH... finds out whether the changes need root, and ends the script if there is no way to become it.
require_rights() {
    local path above
    needs_root=''
    for path in "$@"; do
        above=$(dirname "$destination$path")
        while [[ ! -e $above ]]; do above=$(dirname "$above"); done
        [[ -d $above ]] || refuse "install: $above is not a directory; nothing was changed"
        [[ -w $above ]] || needs_root=yes
    done
    [[ -z $needs_root ]] || may_become_root || refuse "install: this needs root, and there is no sudo; nothing was changed"
}

# The steps that change something.
rightly() {
    if [[ -n $needs_root ]]; then as_root "$@"; else "$@"; fi
}

# write_manifest LINE...; it is complete under its name, or the one before is.
write_manifest() {
    printf '%s\n' "$@" | rightly tee "$destination$manifest.new" >/dev/null
    rightly mv --force --no-target-directory "$destination$manifest.new" "$destination$manifest"
}

install_recorded() {
    local lines=() index
    if [[ -n $known ]]; then mapfile -t lines <<<"$known"; fi
    local made=()
    make_directories
    # Until everything is in place, both what was and what will be there are ours.
    write_manifest "${made[@]}" "${recorded[@]}" "${lines[@]}"
    for index in "${!recorded[@]}"; do
        put "${recorded_sources[index]}" "${recorded_paths[index]}" "${recorded[index]}"
    done
    drop_outdated "${lines[@]}"
    write_manifest "${made[@]}" "${recorded[@]}"
    say "installed $destination$manifest"
}

# Fills `made` with the lines of directories that are ours, now or from before.
make_directories() {
    local path directory line
    local -a missing
    local -A seen=()
    for path in "${recorded_paths[@]}" "$manifest"; do
        missing=()
        directory=$(dirname "$path")
        while [[ $directory != / ]]; do
            line="directory"$'\t'-$'\t'"$directory"
            if [[ ! -d $destination$directory ]] || is_known "$line"; then missing=("$line" "${missing[@]}"); fi
            directory=$(dirname "$directory")
        done
        for line in "${missing[@]}"; do
            [[ -n ${seen[$line]:-} ]] || made+=("$line")
            seen[$line]=yes
        done
        rightly mkdir --parents "$destination$(dirname "$path")"
    done
}

# put SOURCE PATH LINE; a link has no source. What runs or is read meanwhile stays what it was.
put() {
    local path=$destination$2 rest
    if [[ $(present "$2") != "$3" ]]; then
        if [[ -n $1 ]]; then
            local mode=644
            [[ ! -x $1 ]] || mode=755
            rightly install --mode="$mode" --no-target-directory "$1" "$path.new"
        else
            rest=${3#*$'\t'}
            rightly ln --symbolic --force --no-dereference "${rest%%$'\t'*}" "$path.new"
        fi
        rightly mv --force --no-target-directory "$path.new" "$path"
    fi
    say "installed $path"
}

# Files of the version before that this one has no more.
drop_outdated() {
    local line path
    local -A wanted=()
    for path in "${recorded_paths[@]}"; do wanted[$path]=yes; done
    for line in "$@"; do
        [[ $line == directory* || -n ${wanted[${line##*$'\t'}]:-} ]] || remove_line "$line" || true
    done
}

# Removes what a line of the manifest names, if it still is what the line says; returns 1 if it is not.
remove_line() {
    local path=${1##*$'\t'} found
    found=$(present "$path")
    [[ -n $found ]] || return 0
    if [[ $found != "$1" ]]; then
        say "left     $destination$path: it is not what was installed"
        return 1
    fi
    rightly rm --force "$destination$path"
    say "removed  $destination$path"
}

remove_installed() {
    local line lines left=() directories=()
    read_manifest
    [[ -n $known ]] || refuse "install: there is no $destination$manifest, so nothing was removed"
    mapfile -t lines <<<"$known"
    require_rights "${lines[@]##*$'\t'}" "$manifest"
    for line in "${lines[@]}"; do
        if [[ $line == directory* ]]; then
            directories=("$line" "${directories[@]}")
        else
            remove_line "$line" || left+=("$line")
        fi
    done
    rightly rm --force "$destination$manifest"
    say "removed  $destination$manifest"
    for line in "${directories[@]}"; do
        # One that others use by now is theirs.
        [[ ! -d $destination${line##*$'\t'} ]] || rightly rmdir --ignore-fail-on-non-empty "$destination${line##*$'\t'}"
    done
    ((${#left[@]} == 0)) || refuse "install: ${#left[@]} of the installed files were changed since and are still there"
}
