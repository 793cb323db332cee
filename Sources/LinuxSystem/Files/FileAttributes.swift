// SPDX-License-Identifier: Apache-2.0
import CLinux
import Glibc

/// The change of a file's time: to a given time, to the present time, or no change.
package enum TimeChange: Sendable {
    case omit
    case now
    case set(FileStatus.Time)

    fileprivate var seconds: Int64 { if case .set(let time) = self { time.seconds } else { 0 } }
    fileprivate var nanoseconds: Int64 {
        switch self {
        case .omit: CLINUX_TIME_OMIT
        case .now: CLINUX_TIME_NOW
        case .set(let time): Int64(time.nanoseconds)
        }
    }
}

/// System calls that change a file's attributes. An `O_PATH` descriptor of the file is enough.
extension OwnedDescriptor {
    /// `chmod(2)`: sets the permissions of the file.
    package borrowing func changeMode(to mode: UInt32) throws(Errno) {
        guard clinux_fchmod_path(rawValue, mode) == 0 else { throw .last }
    }

    /// `fchownat(2)`: sets the owner of the file; nil leaves the user or group as it is.
    package borrowing func changeOwner(user: UInt32?, group: UInt32?) throws(Errno) {
        guard clinux_fchown_path(rawValue, user ?? .max, group ?? .max) == 0 else { throw .last }
    }

    /// `truncate(2)`: sets the size of the file.
    package borrowing func truncate(to size: Int64) throws(Errno) {
        let descriptor = rawValue
        let result = withDescriptorPath(descriptor) { Glibc.truncate($0, off_t(size)) }
        guard result == 0 else { throw .last }
    }

    /// `utimensat(2)`: sets the times of the file.
    package borrowing func changeTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) {
        let result = clinux_utimens_path(
            rawValue, accessed.seconds, accessed.nanoseconds, modified.seconds, modified.nanoseconds)
        guard result == 0 else { throw .last }
    }

    /// `access(2)`: throws if the daemon itself lacks one of the permissions in `mask`.
    package borrowing func checkAccess(_ mask: CInt) throws(Errno) {
        let descriptor = rawValue
        guard withDescriptorPath(descriptor, { access($0, mask) }) == 0 else { throw .last }
    }
}

/// System calls for extended attributes. They act on a symbolic link itself, not on its target.
extension OwnedDescriptor {
    /// `getxattr(2)`: reads an attribute into the buffer and returns its size. With an empty buffer, only returns the size.
    package borrowing func extendedAttribute(
        _ name: UnsafePointer<CChar>, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int {
        let descriptor = rawValue
        let count = withDescriptorPath(descriptor) { getxattr($0, name, buffer.baseAddress, buffer.count) }
        guard count >= 0 else { throw .last }
        return count
    }

    /// `listxattr(2)`: reads the names of the attributes into the buffer and returns their size. With an empty buffer, only
    /// returns the size.
    package borrowing func extendedAttributeNames(
        into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int {
        let descriptor = rawValue
        let count = withDescriptorPath(descriptor) {
            listxattr($0, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
        guard count >= 0 else { throw .last }
        return count
    }

    /// `setxattr(2)`: sets an attribute.
    package borrowing func setExtendedAttribute(
        _ name: UnsafePointer<CChar>, to value: UnsafeRawBufferPointer, flags: CInt
    ) throws(Errno) {
        let descriptor = rawValue
        let result = withDescriptorPath(descriptor) {
            setxattr($0, name, value.baseAddress, value.count, flags)
        }
        guard result == 0 else { throw .last }
    }

    /// `removexattr(2)`: removes an attribute.
    package borrowing func removeExtendedAttribute(_ name: UnsafePointer<CChar>) throws(Errno) {
        let descriptor = rawValue
        guard withDescriptorPath(descriptor, { removexattr($0, name) }) == 0 else { throw .last }
    }
}
