# SPDX-License-Identifier: Apache-2.0
# Swift is the only program that a user must install before the scripts run. Needs say.sh.

require_swift() {
    local version=none
    if command -v swift >/dev/null; then
        version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9]*\.[0-9]*\).*/\1/p')
    fi
    [[ $version =~ ^([0-9]+)\.([0-9]+)$ ]] &&
        ((BASH_REMATCH[1] > 6 || (BASH_REMATCH[1] == 6 && BASH_REMATCH[2] >= 3))) && return
    refuse "Truce needs Swift 6.3 or later (found: ${version:-unknown}). Get it from" \
        "https://www.swift.org/install/linux/ and make sure that \`swift --version\` finds it."
}
