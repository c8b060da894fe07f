"""The files that commands write: may they be written, and where matplotlib keeps its own."""

import os
from pathlib import Path

from earl.errors import DataNotFound, EarlError


def keep_fonts() -> None:
    """Let matplotlib keep its list of fonts in our cache, not in the home directory."""
    from platformdirs import user_cache_path

    os.environ.setdefault("MPLCONFIGDIR", str(user_cache_path("earl") / "matplotlib"))


def writable(path: Path) -> Path:
    """Return a path whose directory can be written to."""
    if path.is_dir():
        raise EarlError(f"{path} is a directory; give the name of a file")
    if not path.absolute().parent.is_dir():
        raise DataNotFound(f"there is no directory {path.parent} to write {path.name} to; make it")
    if not os.access(path.absolute().parent, os.W_OK):
        raise EarlError(f"{path.parent} cannot be written to; choose another place")
    return path
