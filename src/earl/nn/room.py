"""How much memory this process may use, and an error before anything larger is allocated."""

import os
from pathlib import Path

from earl.errors import TooLarge

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# What a container may use, in the two versions of Linux's control groups.
LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def room(limits: tuple[Path, ...] = LIMITS) -> int | None:
    """Return the bytes of memory that this process may use; None where the system does not say.

    This is the memory of the machine, or less if a container or `ulimit -v` allows less. It is not
    what is free at the moment: a command should not be refused today and accepted tomorrow.
    """
    found = [int(text) for limit in limits if (text := _content(limit)).isdecimal()]
    if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(getattr(os, "sysconf_names", {})):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    if resource is not None:
        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        found += [most] if most != resource.RLIM_INFINITY else []
    return min(found, default=None)


def require_room(size: int, what: str) -> None:
    """Raise TooLarge if so many bytes are more than this process may use."""
    have = room()
    if have is not None and size > have:
        raise TooLarge(f"{what} would take {readable(size)}, and there are {readable(have)} here")


def readable(size: float) -> str:
    """Return a number of bytes for people, such as "1.5 GB" of 10⁹."""
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {UNITS[unit]}" if size < 1000 else f"{size:.0e} {UNITS[unit]}"


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:  # there is no such limit
        return ""
