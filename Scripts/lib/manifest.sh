# SPDX-License-Identifier: Apache-2.0
# Installs files, and records them in a manifest. Needs say.sh and root.sh. `destination` is the directory above all installed
# files, and `manifest` is the path of the manifest in this directory.
#
# A line of the manifest consists of KIND, a value and a path, separated by tabs. The kinds are `file` with a checksum, `link`
# with a target, and `directory` with `-` for a directory that this script has made. A file is replaced or removed only if it
# still equals its line.

recorded=() recorded_paths=() recorded_sources=()
known=''

# record_file SOURCE PATH notes that the file SOURCE is to be installed at PATH.
record_file() {
    local sum
    sum=$(sha256sum <"$1")
    recorded+=("file"$'\t'"${sum%% *}"$'\t'"$2") recorded_paths+=("$2") recorded_sources+=("$1")
}

# record_link TARGET PATH notes that a link to TARGET is to be installed at PATH.
record_link() {
    recorded+=("link"$'\t'"$1"$'\t'"$2") recorded_paths+=("$2") recorded_sources+=('')
}

read_manifest() {
    known=''
    [[ ! -f $destination$manifest ]] || known=$(<"$destination$manifest")
}

# present PATH prints the line that describes the present file at a path; prints nothing if there is no file.
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

# Ends the script before any change if a file that this script did not install is in the place of a new file.
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

# require_rights PATH... finds out whether root must make the changes, and ends the script if it cannot become root.
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

# rightly COMMAND... runs a command, as root if that is necessary.
rightly() {
    if [[ -n $needs_root ]]; then as_root "$@"; else "$@"; fi
}

# write_manifest LINE... replaces the manifest by a complete new manifest. If that fails, the old manifest stays.
write_manifest() {
    printf '%s\n' "$@" | rightly tee "$destination$manifest.new" >/dev/null
    rightly mv --force --no-target-directory "$destination$manifest.new" "$destination$manifest"
}

install_recorded() {
    local lines=() index
    if [[ -n $known ]]; then mapfile -t lines <<<"$known"; fi
    local made=()
    make_directories
    # Until all files are installed, the manifest lists both the old files and the new files.
    write_manifest "${made[@]}" "${recorded[@]}" "${lines[@]}"
    for index in "${!recorded[@]}"; do
        put "${recorded_sources[index]}" "${recorded_paths[index]}" "${recorded[index]}"
    done
    drop_outdated "${lines[@]}"
    write_manifest "${made[@]}" "${recorded[@]}"
    say "installed $destination$manifest"
}

# Sets `made` to the lines of the directories that this script makes now or has made before.
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

# put SOURCE PATH LINE installs a file, or a link if SOURCE is empty. A program that runs or reads the old file goes on with the
# old file.
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

# Removes the files of the former version that this version does not have.
drop_outdated() {
    local line path
    local -A wanted=()
    for path in "${recorded_paths[@]}"; do wanted[$path]=yes; done
    for line in "$@"; do
        [[ $line == directory* || -n ${wanted[${line##*$'\t'}]:-} ]] || remove_line "$line" || true
    done
}

# Removes the file that a line of the manifest describes, if the file still equals the line. Returns 1 if it does not.
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
        # A directory that contains other files stays.
        [[ ! -d $destination${line##*$'\t'} ]] || rightly rmdir --ignore-fail-on-non-empty "$destination${line##*$'\t'}"
    done
    ((${#left[@]} == 0)) || refuse "install: ${#left[@]} of the installed files were changed since and are still there"
}
