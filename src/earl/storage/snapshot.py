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
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from earl.errors import SnapshotError
from earl.storage import files as durable
from earl.storage import reading
from earl.storage.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    MANIFEST_LIMIT,
    TENSORS,
    Json,
    parse_json,
    read_manifest,
    seal_of,
    snapshot_name,
    snapshots_in,
    step_of,
)
from earl.storage.state import CODES, State, digest, flatten, raw, unflatten

PIECE = 1 << 22  # bytes that are copied, hashed and written at a time
HEADER_LIMIT = 1 << 20  # bytes of the safetensors header: some 8,000 tensors


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

    Writing the same state twice is fine. A different state of a step that exists, or a step before
    the newest one, is refused: one of the two would be lost without notice. After an OSError
    (for example a full disk) the older snapshots are unchanged.
    """
    if step < 0 or keep < 1:
        raise ValueError(f"step must be at least 0 and keep at least 1, not {step} and {keep}")
    durable.refuse_link(root)
    durable.make_directory(root)
    for leftover in durable.entries(root, ".tmp-"):
        durable.remove(leftover)
    final = root / snapshot_name(step)
    others = [path for path in snapshots_in(root) if step_of(path) not in (-1, step)]
    if others and step_of(others[0]) > step:
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
        for path in snapshots_in(root):
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


def peek_newest(root: Path) -> Snapshot | None:
    """Return the newest snapshot that is whole, and change nothing: for those who only read.

    One that is damaged, or that its writer removes meanwhile, is passed over; SnapshotError if
    there are some and none can be read.
    """
    reasons = []
    for path in snapshots_in(root):
        try:
            return _load(path)
        except (ValueError, OSError) as reason:
            reasons.append(f"{path.name!r}: {reason}")
    if reasons:
        raise SnapshotError(f"no snapshot in {root} can be read ({'; '.join(reasons)})")
    return None


def _encode(step: int, state: State, about: Mapping[str, Json]) -> dict[str, durable.Content]:
    """Return the files of a snapshot; the manifest tells what the other has come to be."""
    tensors, skeleton = flatten(state)
    header, names = _header(tensors)
    sha256 = hashlib.sha256()

    def pieces() -> Iterator[memoryview]:
        parts = (raw(tensors[name]) for name in names)  # one after the other
        for piece in cut(chain((memoryview(header),), parts)):
            sha256.update(piece)
            yield piece

    def manifest() -> tuple[bytes]:
        size = len(header) + sum(tensor.nbytes for tensor in tensors.values())
        written = {TENSORS: {"bytes": size, "sha256": sha256.hexdigest()}}
        content = {"format_version": FORMAT_VERSION, "step": step, "about": dict(about)}
        return (_manifest(content | {"files": written, "state": skeleton}),)

    manifest()  # an error comes before anything is written
    return {TENSORS: pieces, MANIFEST: manifest}


def _manifest(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, allow_nan=False)
    if json.loads(text) != content:  # a tuple or a number as key, say
        about = content["about"]
        raise TypeError(f"`about` must come back from JSON as it was, unlike {about!r}")
    start = text.encode()[:-1]
    if len(start) > MANIFEST_LIMIT - 100:
        raise SnapshotError(f"the manifest has {len(start)} bytes; keep long lists as tensors")
    return start + seal_of(start)


def cut(parts: Iterable[memoryview]) -> Iterator[memoryview]:
    """Yield the bytes of all parts in pieces of one size, each a copy in the same room.

    What is hashed is then what is written, and no second state is ever in memory.
    """
    room, filled = memoryview(bytearray(PIECE)), 0
    for part in parts:
        while part:
            taken = part[: PIECE - filled]
            room[filled : filled + len(taken)] = taken
            filled, part = filled + len(taken), part[len(taken) :]
            if filled == PIECE:
                yield room
                filled = 0
    if filled:
        yield room[:filled]


def _header(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[str]]:
    """Return the beginning of a safetensors file, and the order of the tensors that follow it.

    The library's `save` takes twice the memory and no aliases.
    """
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
    return len(text).to_bytes(8, "little") + text, names


def _listing(data: bytes | bytearray) -> Json:
    return {TENSORS: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}


def _load(path: Path) -> Snapshot:
    """Read one snapshot; ValueError says what is damaged."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise ValueError("it is not a directory")
    if wrong := {entry.name for entry in path.iterdir()} ^ {MANIFEST, TENSORS}:
        raise ValueError(f"a file is missing or foreign: {min(wrong)!r}")
    manifest = read_manifest(path)
    state = unflatten(_read_tensors(path, manifest["files"]), manifest["state"])
    return Snapshot(manifest["step"], state, manifest["about"], path)


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
        parse_json(data[8 : 8 + length])  # safetensors itself would take the last of two namesakes
        return load(data)
    except (SafetensorError, KeyError) as error:  # KeyError: a type that torch does not have
        raise ValueError(f"{TENSORS} is no safetensors file: {str(error)[:80]!r}") from error


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
