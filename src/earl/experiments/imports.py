"""Modules of the user's own, which register methods, data sets, streams, metrics or probes.

They are imported only when the user names them. A run records their names, but nothing that is read
from a run directory is ever imported by itself: the directory may come from somebody else.
"""

import importlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from earl.errors import EarlError, InvalidSetting


def import_modules(names: Iterable[str]) -> None:
    """Import modules by their dotted names; they are also looked for in the working directory."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise InvalidSetting(f"--import {name!r} must be a module, such as my_package.mine")
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.insert(0, here)
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, and needs another one that is not
            raise EarlError(
                f"--import {name}: there is no module {error.name!r} here; start earl in its "
                "folder, or install it"
            ) from None


def require_imports(record: Mapping[str, Any], path: Path) -> None:
    """Raise EarlError if a run needs modules that have not been imported."""
    missing = [name for name in record.get("imports", []) if name not in sys.modules]
    if missing:
        words = " ".join(f"--import {name}" for name in missing)
        raise EarlError(
            f"{path} was begun with modules of your own; name them again: "
            f"earl resume {path} {words}"
        )
