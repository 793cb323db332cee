// SPDX-License-Identifier: Apache-2.0

/// The class of a file, which decides how programs share it. The file's name or first bytes show the class, or a user's rule.
public enum ItemClass: String, Hashable, Sendable, CaseIterable {
    /// A user's file, for which programs take turns.
    case document
    /// A helper file of one program. It has no claims, presenters or versions.
    case `private`
    /// A database. The programs of a database lock byte ranges of the file themselves. So these programs take turns without the
    /// daemon, unless they use the control socket.
    case database
    /// A log. Programs that append to it and programs that read it do not wait for each other.
    case log
    /// A file that is read only by programs for backup, synchronisation and indexing. No file has this class by
    /// default.
    case background
}
