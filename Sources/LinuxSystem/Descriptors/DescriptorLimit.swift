// SPDX-License-Identifier: Apache-2.0
import Glibc

/// The maximum number of descriptors that this process can have (`RLIMIT_NOFILE`).
package enum DescriptorLimit {
    package static var current: Int {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return Int(clamping: limit.rlim_cur)
    }
}
