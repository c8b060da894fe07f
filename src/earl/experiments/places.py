"""Places: where data sets and their decoded copies lie on this machine.

They are no part of an experiment: another machine keeps them elsewhere.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from earl.errors import InvalidSetting

WORKERS = 8  # decode at a time, at most
MOST_THREADS = 512  # of a run; with very many more torch ends the process


@dataclass(frozen=True)
class Places:
    """The folder that data sets are looked for in, and the one that decoded copies go to."""

    data_root: Path
    cache_root: Path

    @classmethod
    def find(
        cls,
        data_root: Path | None = None,
        cache_root: Path | None = None,
        *,
        before: Mapping[str, str] | None = None,
    ) -> "Places":
        """Return the given folders; else those of before, if they are still there; else ours.

        Ours are EARL_DATA and EARL_CACHE, or folders in the user's cache, never the working
        directory.
        """
        ours = user_cache_path("earl")
        return cls(
            choose(data_root, before, "data_root", "EARL_DATA", ours / "data"),
            choose(cache_root, before, "cache_root", "EARL_CACHE", ours / "decoded"),
        )

    def as_dict(self) -> dict[str, str]:
        return {"data_root": str(self.data_root), "cache_root": str(self.cache_root)}


def choose(
    given: Path | None, before: Mapping[str, str] | None, name: str, variable: str, ours: Path
) -> Path:
    """Return the first of these folders that says something, as an absolute path."""
    if given is not None:
        return given.expanduser().absolute()
    if before and name in before and Path(before[name]).is_dir():
        return Path(before[name])
    said = os.environ.get(variable)
    return Path(said).expanduser().absolute() if said else ours


def workers() -> int:
    """Return how many images may be decoded at a time here."""
    return min(WORKERS, cores())


def check_threads(threads: int) -> int:
    """Return the number if torch can work with so many threads."""
    if not 1 <= threads <= MOST_THREADS:
        raise InvalidSetting(f"threads = {threads} must be from 1 to {MOST_THREADS}")
    return threads


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many cores this process may use: those it is bound to, or its container's share.

    A container may see all cores of its host and be given the time of two: more threads than that
    would wait for each other.
    """
    usable = len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0))
    try:
        time, period = map(int, quota.read_text(encoding="ascii").split())
    except (OSError, ValueError):  # no such file, or "max"
        return usable
    return max(1, min(usable, math.ceil(time / period)))
