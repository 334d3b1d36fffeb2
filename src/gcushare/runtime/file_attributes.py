"""The attributes of files beyond mode and owner: SELinux labels and access lists.

Only ``safe_directory`` and those who read files with it need them.
"""

from __future__ import annotations

import errno
import os
import struct

SELINUX, ACL = "security.selinux", "system.posix_acl_access"
_GROUP_ENTRY = 4
"""ACL_GROUP_OBJ."""


def read_attribute(descriptor: int, name: str) -> bytes | None:
    """Read an attribute of an open file: its SELinux label, or an access list of more than its mode; None without."""
    try:
        return os.getxattr(descriptor, name)
    except OSError:
        return None


def mode_without(acl: bytes, mode: int) -> int:
    """Return a mode that gives no more without this list: with one, the bits of the group are the mask of all entries.

    Source: linux/posix_acl_xattr.h, a version of four bytes, then tag, permissions and id of each entry.
    """
    entries = struct.iter_unpack("<HHI", acl[4:])
    group = next((permissions for tag, permissions, _ in entries if tag == _GROUP_ENTRY), 0)
    return mode & (~0o070 | group << 3)


def write_acl(descriptor: int, acl: bytes | None) -> None:
    """Set the access list of a file of ours; None removes the one that it inherited."""
    try:
        if acl is None:
            os.removexattr(descriptor, ACL)
        else:
            os.setxattr(descriptor, ACL, acl)
    except OSError as error:
        if acl is not None or error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise


def write_label(descriptor: int, label: bytes) -> None:
    """Set the SELinux label of a file of ours, if the system has labels."""
    try:
        os.setxattr(descriptor, SELINUX, label)
    except OSError as error:
        # Otherwise the file has the policy's default label for this directory, as a file that an admin creates.
        if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.EINVAL):
            raise
