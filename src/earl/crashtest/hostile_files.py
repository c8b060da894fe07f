"""The hostile files of D1: what they are made of, without anything that could run them."""

import hashlib
import io
import json
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

from earl.crashtest.forging import EVIL, tensor_file

ENTRY: dict[str, Any] = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
OUTSIDE = ("../state.safetensors", "/etc/passwd", "", ".", "LOCK", "state.safetensors\0")
JUNK: list[Any] = [None, True, 0, -1, 2**70, 1.5, "x", "", "nan", [], {}, [[]], [0, 1]]
JUNK += [{"dict": []}, {"tensor": []}, {"tensor": ["float32", [12]]}]
JUNK += [{"tensor": ["float32", [3, 4], [1, 0]]}, {"float": "1"}, {"float": "nan"}, {"list": {}}]
JUNK += [{"tuple": [{}]}, {"dict": {"#01": 1}}, {"dict": {"%2f": 1}}]
JUNK += [{"dict": {"#1": 1, "a": {"tensor": ["float32", [3.0, 4]]}}}]
ORDERS: tuple[Any, ...] = (5, [0, 0], [True, False], ["0", "1"], [1], {})
JUNK += [["float32", [3, 4], order] for order in ORDERS]
JUNK += [["float32", [3, 4], [0, 1], 1], ["float32"], ["float99", [3, 4]], ["float32", [4, 3]]]


def archive(member: str) -> bytes:
    """Return a zip file, as torch writes them, that holds a pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(member, EVIL)
    return buffer.getvalue()


def pickles() -> Iterator[bytes]:
    """Yield pickles of several protocols that would run a command, alone and behind other data."""
    yield EVIL
    yield from (bytes([0x80, n]) + EVIL for n in range(2, 6))
    yield b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\ntouch harm\x85R."
    yield bytes(64) + EVIL
    yield from map(archive, ("archive/data.pkl", "constants.pkl", "../state.safetensors"))
    yield from map(archive, ("code/__torch__.py", "model/data.pkl", "/etc/cron.d/x"))


def hostile_tensors() -> Iterator[bytes]:
    """Yield the bytes of tensor files that are none, or not the one tensor "/w" of zeros (3, 4)."""
    good = json.dumps({"/w": ENTRY}).encode()
    yield from pickles()
    yield from (struct.pack("<Q", n) + bytes(64) for n in (0, 1, 2**31, 2**60, 2**63, 2**64 - 1))
    yield from (bytes(n) for n in range(9))
    yield from map(tensor_file, (b"(" * 100, b"[" * 90_000, b"\xff" * 100, {}, {"../w": ENTRY}))
    yield tensor_file({f"/{i}": ENTRY for i in range(300_000)})
    yield tensor_file(good, EVIL + bytes(48))
    yield tensor_file(good[:-1] + b"," + good[1:])  # twice the same name
    yield tensor_file({"/w": ENTRY, "/v": ENTRY})  # overlapping
    yield tensor_file({"/w": ENTRY, "/v": ENTRY | {"data_offsets": [48, 96]}}, bytes(96))
    for dtype in ("F64", "F99", "F8_E8M0", "F4", "I32", "", 1, None):
        yield tensor_file({"/w": ENTRY | {"dtype": dtype}})
    many = [1] * 9000
    for shape in ([], [12], [4, 3], [2**32, 2**32], [2**63, 0], [-3, -4], [3.0, 4], "34", many):
        yield tensor_file({"/w": ENTRY | {"shape": shape}})
    for span in ([0, 0], [0, 47], [0, 49], [8, 56], [48, 0], [0, 2**63], [-48, 0], [0], "0"):
        yield tensor_file({"/w": ENTRY | {"data_offsets": span}})


def hostile_manifests() -> Iterator[bytes]:
    """Yield the bytes of files that are no manifest."""
    yield from pickles()
    yield from (b"", b" " * (3 << 20), b"[" * 10**6, bytes(1000), b"{}\n")
    yield from (b"#!/bin/sh\ntouch harm\n", "{}".encode("utf-16"), b"\xef\xbb\xbf{}", b"null")


def hostile_fields() -> Iterator[tuple[list[str], str]]:
    """Yield the way to a field of a manifest, and the JSON text to put there."""
    sha = hashlib.sha256(b"").hexdigest()
    yield from ((["files"], json.dumps({name: {"bytes": 0, "sha256": sha}})) for name in OUTSIDE)
    yield from ((["files", name], json.dumps({"bytes": 0, "sha256": sha})) for name in OUTSIDE)
    listed = ["files", "state.safetensors"]
    yield from (([*listed, "bytes"], text) for text in ("-1", "0", "1.5", "null", "true"))
    yield from (([*listed, "bytes"], str(2**70)), ([*listed, "bytes"], '"10"'))
    yield from (([*listed, "sha256"], text) for text in ('""', f'"{sha}"', "null", "5", "[]"))
    yield from (([*listed, "more"], "1"), (listed, "[]"), (["more"], "1"), (["about"], "[]"))
    yield from ((["step"], text) for text in ("-3", "1", "4", str(2**63), "3.0", '"3"', "true"))
    for text in (
        *("9" * 5000, "1e999", "NaN", "-Infinity", '"text', "{}", '{"dict": {"a": 1, "a": 1}}'),
        *('{"list":[' * 400 + "]}" * 400, "[" * 10**5 + "]" * 10**5),
        *('{"__reduce__": ["os.system", "touch harm"]}', "[" + "[]," * 600_000 + "[]]"),
        json.dumps({"dict": {"k" * 10**6: {"list": [0] * 10**5}}}),
    ):
        yield ["state"], text


def putting(way: list[str], text: str) -> tuple[Callable[[Any], None], Callable[[str], str]]:
    """Return an edit of a manifest, and of its text, that put this JSON text into a field."""

    def edit(manifest: dict[str, Any]) -> None:
        node = manifest
        for key in way[:-1]:
            node = node[key]
        node[way[-1]] = "HERE"

    return edit, lambda whole: whole.replace('"HERE"', text)


def places(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value in a JSON tree."""
    yield place
    keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield from places(node[key], (*place, key))


def plant(tree: Any, rng: random.Random) -> None:
    """Put junk in one random place."""
    *way, last = rng.choice([place for place in places(tree) if place])
    node = tree
    for key in way:
        node = node[key]
    node[last] = rng.choice(JUNK)
