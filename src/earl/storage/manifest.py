"""The manifests of snapshots: where they lie and what they say, read without their tensors."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from earl.errors import SnapshotError
from earl.storage import files, reading

FORMAT_VERSION = 1
MANIFEST, TENSORS = "manifest.json", "state.safetensors"
MANIFEST_LIMIT = 2 << 20  # bytes; hostile JSON takes some 25 times as much when parsed

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
_FIELDS = {"format_version": int, "step": int, "about": dict, "files": dict, "sha256": str}


def newest_step(root: Path) -> int:
    """Return the step of the newest snapshot, whole or not; -1 if there is none."""
    return max((step_of(path) for path in snapshots_in(root)), default=-1)


def read_about(root: Path) -> tuple[Path, Mapping[str, Json]] | None:
    """Return the newest snapshot and what was said about it, its tensors unread.

    Damaged ones are skipped, and nothing is changed: `read_newest` deals with them.
    """
    for path in snapshots_in(root):
        try:
            return path, read_manifest(path)["about"]
        except (ValueError, OSError, SnapshotError):  # OSError: removed by now
            continue
    return None


def read_manifest(path: Path) -> dict[str, Any]:
    data = reading.read_regular(path / MANIFEST, MANIFEST_LIMIT)
    start = data[: -len(seal_of(b""))]
    if data != start + seal_of(start):
        raise ValueError(f"{MANIFEST} does not match its SHA-256")
    manifest: dict[str, Any] = parse_json(data)
    version = manifest.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        known = f"this earl reads formats up to {FORMAT_VERSION}"
        raise SnapshotError(f"{path} has format {version}, {known}; use a newer earl")
    types = {key: type(value) for key, value in manifest.items() if key != "state"}
    if types != _FIELDS or "state" not in manifest or version != FORMAT_VERSION:
        raise ValueError(f"{MANIFEST} does not have the fields of format {FORMAT_VERSION}")
    if path.name != snapshot_name(manifest["step"]) or manifest["step"] < 0:
        raise ValueError(f"it holds step {manifest['step']}")
    return manifest


def parse_json(data: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) != len(pairs):
            raise ValueError("a key of a JSON object comes twice")
        return found

    try:
        return json.loads(data.decode(), object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def seal_of(start: bytes) -> bytes:
    """End a manifest with its SHA-256; in all formats, so that age and damage can be told apart."""
    return b', "sha256": "%s"}\n' % hashlib.sha256(start).hexdigest().encode()


def snapshot_name(step: int) -> str:
    return f"snap-{step:012d}"


def step_of(path: Path) -> int:
    """Return the step in a name, or -1 if it is no name of ours."""
    return int(path.name[5:]) if re.fullmatch(r"snap-[0-9]{12,}", path.name) else -1


def snapshots_in(root: Path) -> list[Path]:
    """Return all there is under the name of a snapshot, newest first."""
    found = files.entries(root, "snap-")
    return sorted(found, key=lambda path: (step_of(path), path.name), reverse=True)
