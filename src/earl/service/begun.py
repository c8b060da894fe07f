"""What a folder of a service was begun with: the parameters of its model, which then stay."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from earl.errors import InvalidSetting, StorageError
from earl.estimator import EARLClassifier
from earl.estimator.parameters import Parameters
from earl.service.journal import NAME, Journal


def unusable(folder: Path, error: sqlite3.Error) -> StorageError:
    """Return an error of the journal's disk, at the start, as one of ours."""
    return StorageError(f"{folder / NAME}: {error}; check the disk, then start again")


def begun_with(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of a new model, checked and as JSON holds them."""
    clf = EARLClassifier(**({"threads": 1} | dict(given)))
    parameters = clf.get_params()
    if not isinstance(parameters["backbone"], str):
        raise InvalidSetting("a service takes images: backbone must be a name, as 'resnet18'")
    parameters["settings"] = Parameters(**parameters).typed()
    found: dict[str, Any] = json.loads(json.dumps(parameters))
    return found


def found_in(folder: Path, given: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the parameters of a service's model, and how many classes it knows; change nothing.

    A folder that was begun has its own, and InvalidSetting says which of the given ones differ.
    """
    if not (folder / NAME).exists():
        return begun_with(given), 0
    try:
        journal = Journal(folder, {}, read_only=True)
        known = len(journal.labels())
        journal.close()
    except sqlite3.Error as error:
        raise unusable(folder, error) from error
    check_same(folder, journal.parameters, given)
    return journal.parameters, known


def check_same(folder: Path, begun: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise InvalidSetting if a directory was begun with other parameters than those given."""
    asked = begun_with({**begun, **given})
    for name, value in asked.items():
        if name == "settings":
            same = set(map(str, value.items())) <= set(map(str, begun[name].items()))
        else:
            same = value == begun[name]
        if not same:
            raise InvalidSetting(f"{folder} was begun with {name} = {begun[name]!r}; leave it out")
