# SPDX-License-Identifier: Apache-2.0
# Installs the packages in Scripts/lib/packages that this machine lacks. Needs say.sh and root.sh. `scripts` must be the
# directory of the scripts.

# Prints the list's lines for these needs, without their first word: PACKAGE PROGRAMS...
listed() {
    local need
    for need in "$@"; do
        sed -n "s/^$need  *//p" "$scripts/lib/packages"
    done
}

missing_packages() {
    local installed package programs
    # shellcheck disable=SC2016  # dpkg-query, not the shell, replaces these names.
    installed=$(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
    listed "$@" | while read -r package programs; do
        grep --quiet --line-regexp --fixed-strings -- "$package" <<<"$installed" || say "$package"
    done | sort -u
}

missing_programs() {
    local package programs program
    listed "$@" | while read -r package programs; do
        for program in $programs; do
            command -v "$program" >/dev/null || say "$program (Debian package $package)"
        done
    done
}

# If this variable is set, nothing is installed: missing packages are only named.
installs_nothing=

# install_missing NEED... runs apt only if a package is missing.
install_missing() {
    local missing
    if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
        missing=$(missing_packages "$@")
        if [[ -n $missing ]]; then
            [[ -z $installs_nothing ]] || refuse "Missing packages:" $missing
            say "Installing:" $missing
            may_become_root || refuse "Missing: ${missing//$'\n'/ }. Install them as root with" \
                "'apt-get install ${missing//$'\n'/ }', and start this script again."
            as_root apt-get update --quiet=2
            # shellcheck disable=SC2086  # Each package must become a word of its own.
            as_root env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=120 \
                install --yes --no-install-recommends $missing
        fi
    elif command -v pkg-config >/dev/null && ! pkg-config --exists 'fuse3 >= 3.14'; then
        refuse "This is not a Debian system, so nothing was installed. Missing: libfuse 3.14 or later and its headers."
    fi
    missing=$(missing_programs "$@")
    [[ -z $missing ]] || refuse "These programs are missing and no package brought them:" $'\n'"$missing"
    if [[ -n $installs_nothing ]]; then say "Nothing is missing." && exit 0; fi
}
