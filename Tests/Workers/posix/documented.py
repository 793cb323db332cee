# SPDX-License-Identifier: Apache-2.0
"""The errors that the manual pages document for each call. Each error must occur in a run, or have a reason why it cannot."""
# The pages are those of Linux man-pages 6.03, section 2. All calls of a page count as one call, except for errors of a single
# call.
DOCUMENTED = {
    "open openat creat": "EACCES EBUSY EDQUOT EEXIST EFAULT EFBIG EINTR EINVAL EISDIR ELOOP EMFILE ENAMETOOLONG ENFILE "
                         "ENODEV ENOENT ENOMEM ENOSPC ENOTDIR ENXIO EOPNOTSUPP EOVERFLOW EPERM EROFS ETXTBSY EAGAIN",
    "openat": "EBADF ENOTDIR",
    "rename renameat renameat2": "EACCES EBUSY EDQUOT EEXIST EFAULT EINVAL EISDIR ELOOP EMLINK ENAMETOOLONG ENOENT ENOMEM "
                                 "ENOSPC ENOTDIR ENOTEMPTY EPERM EROFS EXDEV",
    "renameat renameat2": "EBADF ENOTDIR",
    "renameat2": "EEXIST EINVAL ENOENT EPERM",
    "link linkat": "EACCES EDQUOT EEXIST EFAULT EIO ELOOP EMLINK ENAMETOOLONG ENOENT ENOMEM ENOSPC ENOTDIR EPERM EROFS EXDEV",
    "linkat": "EBADF EINVAL ENOENT ENOTDIR EPERM",
    "unlink unlinkat": "EACCES EBUSY EFAULT EIO EISDIR ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EPERM EROFS",
    "unlinkat": "EBADF EINVAL EISDIR ENOTDIR",
    "rmdir": "EACCES EBUSY EFAULT EINVAL ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR ENOTEMPTY EPERM EROFS",
    "unlinkat(AT_REMOVEDIR)": "EINVAL ENOTDIR ENOTEMPTY",
    "mkdir mkdirat": "EACCES EDQUOT EEXIST EFAULT EINVAL ELOOP EMLINK ENAMETOOLONG ENOENT ENOMEM ENOSPC ENOTDIR EPERM EROFS",
    "mkdirat": "EBADF ENOTDIR",
    "truncate": "EACCES EFAULT EFBIG EINTR EINVAL EIO EISDIR ELOOP ENAMETOOLONG ENOENT ENOTDIR EPERM EROFS ETXTBSY",
    "ftruncate": "EBADF EINVAL",
    "chmod fchmodat": "EACCES EFAULT EIO ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EPERM EROFS",
    "fchmod": "EBADF EIO EPERM EROFS",
    "fchmodat": "EBADF EINVAL ENOTDIR EOPNOTSUPP",
    "chown lchown fchownat": "EACCES EFAULT ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EPERM EROFS",
    "fchown": "EBADF EIO EPERM EROFS",
    "fchownat": "EBADF EINVAL ENOTDIR",
    "utimensat": "EACCES EBADF EFAULT EINVAL ELOOP ENAMETOOLONG ENOENT ENOTDIR EPERM EROFS ESRCH",
    "futimens": "EBADF EINVAL EPERM EROFS",
    "setxattr lsetxattr fsetxattr": "EDQUOT EEXIST ENODATA ENOSPC EOPNOTSUPP EPERM ERANGE "
                                    "EACCES EBADF EFAULT ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EOVERFLOW EROFS",
    "fsetxattr": "EBADF",
}

# For a call (or for any call) and an error, the reason why no test can produce this error.
IMPOSSIBLE = {
    ("any", "ENOMEM"): "the kernel would have to run out of memory, and the machine with it",
    ("any", "EDQUOT"): "quotas need a kernel with one of the quota formats, and many have none",
    ("any", "ENFILE"): "the limit is one for the whole machine, and root passes it",
    ("any", "EOVERFLOW"): "a 64-bit program opens every file as a large one, and no number overflows its stat",
    ("open openat creat", "EFBIG"): "as EOVERFLOW, which has taken its place since Linux 2.6.24",
    ("utimensat", "ESRCH"): "the kernel says EACCES, and has done since it has the call",
}


def impossible(call, error):
    return IMPOSSIBLE.get((call, error)) or IMPOSSIBLE.get(("any", error))


def missing(pairs):
    """Returns the errors that are documented and possible but did not occur in the pairs of a call and its result."""
    seen = {}
    for call, outcome in pairs:
        seen.setdefault(call, set()).add(outcome)
        # A call with flags in brackets also counts as the call without them.
        seen.setdefault(call.split("(")[0], set()).add(outcome)
    return [(call, error) for call, errors in DOCUMENTED.items() for error in errors.split()
            if not impossible(call, error) and not any(error in seen.get(name, ()) for name in call.split())]
