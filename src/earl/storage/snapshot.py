"""The state of a learner as a directory: tensors in safetensors, all else in a manifest.

    root/snap-000000012345/    named after the step, never after a time
        state.safetensors      every tensor
        manifest.json          format_version, step, about, files, state; its own SHA-256 last
    root/.tmp-…                unfinished; removed by the next write
    root/bad-…                 damaged; set aside and never removed

A snapshot is written whole or not at all, and never changed. Nothing that is read can name or carry
code. The hashes find damage; they are no signature. Whoever writes holds the root's lock
(`earl.storage.files.lock_directory`).
"""

import hashlib
import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from earl.errors import SnapshotError
from earl.storage import files as durable
from earl.storage import reading
from earl.storage.state import CODES, Json, State, digest, flatten, raw, unflatten

FORMAT_VERSION = 1
MANIFEST, TENSORS = "manifest.json", "state.safetensors"
MANIFEST_LIMIT = 2 << 20  # bytes; hostile JSON takes some 25 times as much when parsed
HEADER_LIMIT = 1 << 20  # bytes of the safetensors header: some 8,000 tensors

_FIELDS = {"format_version": int, "step": int, "about": dict, "files": dict, "sha256": str}


@dataclass(frozen=True)
class Snapshot:
    """A verified state, what was said about it, and the newer snapshots that were damaged."""

    step: int
    state: State
    about: Mapping[str, Json]
    path: Path
    skipped: tuple[str, ...] = ()  # a line for each: which, why, and where it is now


def write_snapshot(
    root: Path, step: int, state: State, *, about: Mapping[str, Json], keep: int = 2
) -> Path:
    """Write the state after one step, then remove all but the last `keep`; return its directory.

    To write the same state twice is fine. Another state of a step that is there, or a step before
    the newest one, is refused: one of the two would be lost unseen. After an OSError (say, a full
    disk) the older snapshots are as they were.
    """
    if step < 0 or keep < 1:
        raise ValueError(f"step must be at least 0 and keep at least 1, not {step} and {keep}")
    durable.refuse_link(root)
    durable.make_directory(root)
    for leftover in durable.entries(root, ".tmp-"):
        durable.remove(leftover)
    final = root / _name(step)
    others = [path for path in _snapshots(root) if _step(path) not in (-1, step)]
    if others and _step(others[0]) > step:
        raise SnapshotError(f"{others[0]} is later than step {step}; choose another directory")
    if not _holds(final, state):
        durable.write_dir_atomically(final, _encode(step, state, about))
    for path in others[keep - 1 :]:
        gone = path.rename(root / f".tmp-{path.name}")  # never half a snapshot, even when killed
        durable.remove(gone)
    return final


def read_newest(root: Path) -> Snapshot | None:
    """Return the newest snapshot that is whole, or None if there is no snapshot at all.

    Damaged newer ones are renamed to `bad-…` and listed in `skipped`. If there are snapshots but
    none is whole, or one is of a newer format or cannot be read by the system, the answer is a
    SnapshotError and everything stays as it is.
    """
    damaged: dict[Path, str] = {}
    try:
        durable.refuse_link(root)
        for path in _snapshots(root):
            try:
                snapshot = _load(path)
            except ValueError as reason:
                damaged[path] = str(reason)
            else:
                moved = {path: durable.set_aside(path).name for path in damaged}
                skipped = (f"{p.name!r}: {damaged[p]}; kept as {moved[p]}" for p in damaged)
                return replace(snapshot, skipped=tuple(skipped))
        damaged = damaged or {path: "set aside earlier" for path in durable.entries(root, "bad-")}
    except (OSError, MemoryError) as error:
        what = f"{type(error).__name__}: {error}"
        raise SnapshotError(f"cannot read the snapshots in {root}; {what}") from error
    if damaged:
        reasons = "; ".join(f"{path.name!r}: {reason}" for path, reason in damaged.items())
        raise SnapshotError(
            f"no snapshot in {root} is whole ({reasons}). Nothing was changed; "
            "put one back from a copy, or start anew in another directory."
        )
    return None


def newest_step(root: Path) -> int:
    """Return the step of the newest snapshot, whole or not; -1 if there is none."""
    return max((_step(path) for path in _snapshots(root)), default=-1)


def read_about(root: Path) -> tuple[Path, Mapping[str, Json]] | None:
    """Return the newest snapshot and what was said about it, its tensors unread.

    Damaged ones are passed over, changed is nothing: what to do about them is for `read_newest`.
    """
    for path in _snapshots(root):
        try:
            return path, _read_manifest(path)["about"]
        except (ValueError, OSError, SnapshotError):  # OSError: removed by now
            continue
    return None


def _encode(step: int, state: State, about: Mapping[str, Json]) -> dict[str, bytes | bytearray]:
    tensors, skeleton = flatten(state)
    data = _pack(tensors)
    manifest = {"format_version": FORMAT_VERSION, "step": step, "about": dict(about)}
    manifest |= {"files": _listing(data), "state": skeleton}
    text = json.dumps(manifest, allow_nan=False)
    if json.loads(text) != manifest:  # a tuple or a number as key, say
        raise TypeError(f"`about` must come back from JSON as it was, unlike {about!r}")
    start = text.encode()[:-1]
    if len(start) > MANIFEST_LIMIT - 100:
        raise SnapshotError(f"the manifest has {len(start)} bytes; keep long lists as tensors")
    return {TENSORS: data, MANIFEST: start + _seal(start)}


def _pack(tensors: Mapping[str, Tensor]) -> bytearray:
    """Return a safetensors file. The library's `save` takes twice the memory and no aliases."""
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # keeps all aligned
    header, end = {}, 0
    for name in names:
        begin, end = end, end + tensors[name].nbytes
        entry = {"dtype": CODES[tensors[name].dtype], "shape": list(tensors[name].shape)}
        header[name] = entry | {"data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise SnapshotError(f"{len(names)} tensors are too many for one snapshot; join some")
    data = bytearray(len(text).to_bytes(8, "little") + text)
    for name in names:
        data += raw(tensors[name])
    return data


def _listing(data: bytes | bytearray) -> Json:
    return {TENSORS: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}


def _seal(start: bytes) -> bytes:
    """End a manifest with its SHA-256; in all formats, so that age and damage can be told apart."""
    return b', "sha256": "%s"}\n' % hashlib.sha256(start).hexdigest().encode()


def _load(path: Path) -> Snapshot:
    """Read one snapshot; ValueError says what is damaged."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise ValueError("it is not a directory")
    if wrong := {entry.name for entry in path.iterdir()} ^ {MANIFEST, TENSORS}:
        raise ValueError(f"a file is missing or foreign: {min(wrong)!r}")
    manifest = _read_manifest(path)
    state = unflatten(_read_tensors(path, manifest["files"]), manifest["state"])
    return Snapshot(manifest["step"], state, manifest["about"], path)


def _read_manifest(path: Path) -> dict[str, Any]:
    data = reading.read_regular(path / MANIFEST, MANIFEST_LIMIT)
    start = data[: -len(_seal(b""))]
    if data != start + _seal(start):
        raise ValueError(f"{MANIFEST} does not match its SHA-256")
    manifest: dict[str, Any] = _parsed(data)
    version = manifest.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        known = f"this earl reads formats up to {FORMAT_VERSION}"
        raise SnapshotError(f"{path} has format {version}, {known}; use a newer earl")
    types = {key: type(value) for key, value in manifest.items() if key != "state"}
    if types != _FIELDS or "state" not in manifest or version != FORMAT_VERSION:
        raise ValueError(f"{MANIFEST} does not have the fields of format {FORMAT_VERSION}")
    if path.name != _name(manifest["step"]) or manifest["step"] < 0:
        raise ValueError(f"it holds step {manifest['step']}")
    return manifest


def _parsed(data: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) != len(pairs):
            raise ValueError("a key of a JSON object comes twice")
        return found

    try:
        return json.loads(data.decode(), object_pairs_hook=unique)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def _read_tensors(path: Path, files: dict[str, Any]) -> dict[str, Tensor]:
    match files:
        case {"state.safetensors": {"bytes": int(size)}}:
            data = reading.read_regular(path / TENSORS, size)
        case _:
            raise ValueError(f"{MANIFEST} does not list {TENSORS}")
    if files != _listing(data):
        raise ValueError(f"{TENSORS} does not match its size and SHA-256")
    if (length := int.from_bytes(data[:8], "little")) > HEADER_LIMIT:
        raise ValueError(f"{TENSORS} has a header of more than {HEADER_LIMIT} bytes")
    try:
        _parsed(data[8 : 8 + length])  # safetensors itself would take the last of two namesakes
        return load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a type that torch does not have
        raise ValueError(f"{TENSORS} is no safetensors file: {str(error)[:80]!r}") from error


def _name(step: int) -> str:
    return f"snap-{step:012d}"


def _step(path: Path) -> int:
    """Return the step in a name, or -1 if it is no name of ours."""
    return int(path.name[5:]) if re.fullmatch(r"snap-[0-9]{12,}", path.name) else -1


def _snapshots(root: Path) -> list[Path]:
    """Return all there is under the name of a snapshot, newest first."""
    found = durable.entries(root, "snap-")
    return sorted(found, key=lambda path: (_step(path), path.name), reverse=True)


def _holds(path: Path, state: State) -> bool:
    """Tell whether a snapshot is there and holds this state; a damaged one is set aside."""
    try:
        found = _load(path)
    except FileNotFoundError:
        return False
    except ValueError:
        durable.set_aside(path)
        return False
    if digest(found.state) != digest(state):
        raise SnapshotError(f"{path} holds another state of this step; choose another directory")
    durable.fsync_dir(path.parent)  # the last life may have been killed just before
    return True
