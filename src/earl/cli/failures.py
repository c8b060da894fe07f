"""Errors of the system in words: which file, what went wrong, and what to do about it."""

import errno
from collections.abc import Mapping

from earl.errors import StorageError

_AGAIN = "then start the same command again"
_CHECK = f"the disk or the way to it has failed; check it, {_AGAIN}"
_LOCKS = "this file system keeps no locks; choose a folder on a local disk"
_FILE = "a file stands where a folder is needed; choose another name"

ADVICE: Mapping[int, str] = {
    errno.ENOSPC: f"make room there or choose another place, {_AGAIN}",
    errno.EDQUOT: f"your share of this disk is used up: make room, {_AGAIN}",
    errno.EFBIG: "the file has become larger than is allowed here; choose another place",
    errno.EIO: _CHECK,
    errno.ESTALE: _CHECK,
    errno.ETIMEDOUT: _CHECK,
    errno.ENODEV: _CHECK,
    errno.ENXIO: _CHECK,
    errno.EROFS: "nothing can be written there; choose another place",
    errno.EACCES: "you lack the permission; change it, or choose another place",
    errno.EPERM: "this is not allowed to you; choose another place",
    errno.ENOLCK: _LOCKS,
    errno.ENOSYS: _LOCKS,
    errno.EOPNOTSUPP: _LOCKS,
    errno.ENOENT: f"it is missing, or was removed meanwhile: put it back, {_AGAIN}",
    errno.ENOTDIR: _FILE,
    errno.EEXIST: _FILE,
    errno.EISDIR: "a folder stands where a file is needed; choose another name",
    errno.ENOTEMPTY: f"something was put there meanwhile: move it away, {_AGAIN}",
    errno.ELOOP: "a link stands where none may be; put a real file or folder there",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: f"too many files are open: raise the limit (ulimit -n), {_AGAIN}",
    errno.ENFILE: f"too many files are open on this machine: close some, {_AGAIN}",
    errno.ENOMEM: f"memory is short: end other programs, {_AGAIN}",
    errno.EAGAIN: f"the machine is too busy: wait, {_AGAIN}",
}


def explained(error: OSError) -> StorageError:
    """Return an error of the system as one of ours: the path, what it says, and advice."""
    said = error.strerror or str(error) or type(error).__name__
    path = error.filename if error.filename is not None else "an open file or the output"
    advice = ADVICE.get(error.errno or 0, f"see what is wrong there, {_AGAIN}")
    return StorageError(f"{path}: {said}; {advice}")
