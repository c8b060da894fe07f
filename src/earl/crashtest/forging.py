"""Forged snapshots: files that an attacker has changed, with hashes that are right."""

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A pickle that would run `touch harm`, spelled out: nothing here can write pickles.
EVIL = b"cposix\nsystem\n(S'touch harm'\ntR."


def nothing(manifest: dict[str, Any]) -> None:
    """Change nothing."""


def forge(
    path: Path,
    edit: Callable[[dict[str, Any]], object] = nothing,
    data: bytes | None = None,
    text: Callable[[str], str] | None = None,
) -> None:
    """Rewrite a snapshot with hashes that are right, as an attacker would."""
    manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    del manifest["sha256"]
    if data is not None:
        (path / "state.safetensors").write_bytes(data)
        sha = hashlib.sha256(data).hexdigest()
        manifest["files"] = {"state.safetensors": {"bytes": len(data), "sha256": sha}}
    edit(manifest)
    start = (text(json.dumps(manifest)) if text else json.dumps(manifest))[:-1].encode()
    sha = hashlib.sha256(start).hexdigest()
    (path / "manifest.json").write_bytes(start + b', "sha256": "%s"}\n' % sha.encode())


def tensor_file(header: object, data: bytes = bytes(48)) -> bytes:
    """Return a safetensors file with this header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data
