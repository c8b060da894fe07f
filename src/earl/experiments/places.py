"""Places: where data sets and their decoded copies lie on this machine.

They are no part of an experiment: another machine keeps them elsewhere.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from earl.errors import EarlError
from earl.storage.files import make_directory


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
        """Return the given folders; else the earlier ones, if they still exist; else ours.

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
    """Return the first of these folders that is not empty text, as an absolute path."""
    if given is not None:
        return given.expanduser().absolute()
    if before and name in before and Path(before[name]).is_dir():
        return Path(before[name])
    said = os.environ.get(variable)
    return Path(said).expanduser().absolute() if said else ours


def make_writable(out: Path) -> None:
    """Make the directory of all runs, or say why that cannot be."""
    try:
        check_writable(out)
        make_directory(out.absolute())
    except OSError as error:
        raise EarlError(f"cannot write to {out}: {error.strerror}; choose another --out") from None


def check_writable(folder: Path) -> None:
    """Raise OSError if nothing can be written to a folder, or where it would be made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(there)) from None
