"""Hostile snapshots, whose hashes are right: they are refused, and nothing they say is done.

Run as a script with the name of a trial and a directory, this file is the process that reads them.
"""

import hashlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from earl.errors import SnapshotError
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import flatten
from snapshots import (
    assert_found,
    be_trial,
    example,
    forge,
    in_child,
    pair,
    run_trial,
    tree,
    unflushed,  # noqa: F401
)


def test_a_forgery_that_changes_nothing_is_loaded():
    """The control of the forgeries below: they are refused for what they say."""
    with pair() as (root, newer, _):
        before = tree(newer)
        forge(newer, data=(newer / "state.safetensors").read_bytes())
        assert tree(newer) == before
        assert read_newest(root).step == 2


@pytest.mark.parametrize("version", [2, 10**6])
def test_a_newer_format_is_refused_with_both_versions_even_if_an_older_snapshot_is_good(version):
    with pair() as (root, newer, _):
        forge(newer, lambda manifest: manifest.update(format_version=version, new_field=1))
        before = tree(root)
        for call in (
            lambda: read_newest(root),
            lambda: write_snapshot(root, 2, example(2), about={}),
        ):
            with pytest.raises(SnapshotError, match=f"format {version}.* up to 1"):
                call()
        assert tree(root) == before


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None, [1]])
def test_a_format_that_never_was_is_damage(version):
    with pair() as (root, newer, _):
        forge(newer, lambda manifest: manifest.update(format_version=version))
        assert_found(root, newer)


@pytest.mark.parametrize("field", ["format_version", "step", "about", "files", "state"])
def test_no_field_may_be_missing_of_another_type_or_double(field):
    with pair() as (root, newer, _):
        good = tree(newer)["manifest.json"]
        for edit in (
            lambda manifest: manifest.pop(field),
            lambda manifest: manifest.update({field: [manifest[field]]}),
            lambda manifest: manifest.update({field: None if field != "state" else {"a": 1}}),
            lambda manifest: manifest.update({field + "2": manifest[field]}),
        ):
            forge(newer, edit)
            assert_found(root, newer)
            (root / "bad-snap-000000000002").rename(newer)
            (newer / "manifest.json").write_bytes(good)
        forge(newer, text=lambda text: text.replace(f'"{field}"', f'"{field}": 1, "{field}"'))
        assert_found(root, newer)


JUNK = [None, True, 0, -1, 2**70, 1.5, "x", "", "nan", [], {}, [[]], [0, 1], {"dict": []}]
JUNK += [{"tensor": []}, {"tensor": ["float32", [12]]}, {"tensor": ["float32", [3, 4], [1, 0]]}]
JUNK += [{"float": "1"}, {"float": "nan"}, {"list": {}}, {"tuple": [{}]}, {"dict": {"#01": 1}}]
JUNK += [{"dict": {"%2f": 1}}, {"dict": {"#1": 1, "a": {"tensor": ["float32", [3.0, 4]]}}}]
JUNK += [["float32", [3, 4], order] for order in (5, [0, 0], [True, False], ["0", "1"], [1], {})]
JUNK += [["float32", [3, 4], [0, 1], 1], ["float32"], ["float99", [3, 4]], ["float32", [4, 3]]]


def places(node, place=()):
    """Yield the way to each value in a JSON tree."""
    yield place
    for key in (
        node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    ):
        yield from places(node[key], (*place, key))


def planted(manifest, rng):
    """Put junk in one random place."""
    *way, last = rng.choice([place for place in places(manifest) if place])
    node = manifest
    for key in way:
        node = node[key]
    node[last] = rng.choice(JUNK)


def test_junk_in_any_place_of_a_manifest_is_refused_or_harmless():
    rng, refused = random.Random(0), 0
    with pair() as (root, newer, older):
        shutil.rmtree(older)
        good = tree(newer)["manifest.json"]
        for _ in range(150):
            forge(newer, lambda manifest: planted(manifest, rng))
            try:
                flatten(read_newest(root).state)
            except SnapshotError:
                refused += 1
            (newer / "manifest.json").write_bytes(good)
    assert 75 < refused < 150  # some junk is as good as what it replaced


class Evil:
    def __reduce__(self):
        return os.system, ("touch harm",)


def archive(member):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(member, pickle.dumps(Evil()))
    return buffer.getvalue()


def tensor_file(header, data=bytes(48)):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def hostile_tensors():
    """Yield the bytes of tensor files that are none, or not the one tensor "/w" of zeros (3, 4)."""
    entry = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}
    good = json.dumps({"/w": entry}).encode()
    yield from (pickle.dumps(Evil(), protocol=n) for n in range(6))
    yield from map(archive, ("archive/data.pkl", "constants.pkl", "../state.safetensors"))
    yield from (struct.pack("<Q", n) + bytes(64) for n in (0, 1, 2**31, 2**60, 2**64 - 1))
    yield from (bytes(n) for n in range(9))
    yield from map(tensor_file, (b"(" * 100, b"[" * 90_000, b"\xff" * 100, {}, {"../w": entry}))
    yield tensor_file({f"/{i}": entry for i in range(300_000)})
    yield tensor_file(good, pickle.dumps(Evil()) + bytes(48))
    yield tensor_file(good[:-1] + b"," + good[1:])  # twice the same name
    yield tensor_file({"/w": entry, "/v": entry})  # overlapping
    yield tensor_file({"/w": entry, "/v": entry | {"data_offsets": [48, 96]}}, bytes(96))
    for dtype in ("F64", "F99", "F8_E8M0", "F4", "I32", "", 1, None):
        yield tensor_file({"/w": entry | {"dtype": dtype}})
    many = [1] * 9000
    for shape in ([], [12], [4, 3], [2**32, 2**32], [2**63, 0], [-3, -4], [3.0, 4], "34", many):
        yield tensor_file({"/w": entry | {"shape": shape}})
    for span in ([0, 0], [0, 47], [0, 49], [8, 56], [48, 0], [0, 2**63], [-48, 0], [0], "0"):
        yield tensor_file({"/w": entry | {"data_offsets": span}})


def hostile_manifests():
    """Yield the bytes of files that are no manifest."""
    yield from (pickle.dumps(Evil()), archive("data.pkl"), b"", b" " * (3 << 20), b"[" * 10**6)
    yield from (b"#!/bin/sh\ntouch harm\n", "{}".encode("utf-16"), bytes(1000), b"{}\n")


def hostile_fields():
    """Yield the way to a field of a manifest, and the JSON text to put there."""
    sha = hashlib.sha256(b"").hexdigest()
    outside = ("../state.safetensors", "/etc/passwd", "", ".", "LOCK", "state.safetensors\0")
    yield from ((["files"], json.dumps({name: {"bytes": 0, "sha256": sha}})) for name in outside)
    yield from ((["files", name], json.dumps({"bytes": 0, "sha256": sha})) for name in outside)
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


def forge_field(path, way, text):
    def edit(manifest):
        node = manifest
        for key in way[:-1]:
            node = node[key]
        node[way[-1]] = "HERE"

    forge(path, edit, text=lambda whole: whole.replace('"HERE"', text))


def make_hostile(root):
    """Make a root for each hostile snapshot; all hashes fit, so parsing is what they try."""
    write_snapshot(root / "good", 3, {"w": torch.zeros(3, 4)}, about={})
    numbers = iter(range(10**6))

    def fresh():
        return shutil.copytree(root / "good", root / f"{next(numbers)}") / "snap-000000000003"

    for data in hostile_tensors():
        forge(fresh(), data=data)
    for data in hostile_manifests():
        (fresh() / "manifest.json").write_bytes(data)
    for way, text in hostile_fields():
        forge_field(fresh(), way, text)
    return next(numbers)


FORBIDDEN = ("pickle.find_class", "exec", "compile", "os.system", "os.exec", "os.posix_spawn")
FORBIDDEN += ("subprocess.Popen", "socket.connect", "marshal.loads", "import", "ctypes.dlopen")


def peak_memory():
    """Return the most memory this process has held, in MB, where Linux tells it, or 0."""
    status = Path("/proc/self/status")  # `getrusage` would count the parent's memory before exec
    lines = status.read_text().splitlines() if status.exists() else ["VmHWM: 0 kB"]
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def feed_hostile_files(root):
    """Load each hostile snapshot under an audit hook that sees every dangerous act."""
    seen, watching, wrong = [], False, []

    def watch(event, args):
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if watching and (event in FORBIDDEN or writes):
            seen.append([event, str(args)[:100]])

    sys.addaudithook(watch)
    in_child(lambda: make_hostile(root))  # elsewhere, for making them takes memory too
    cases = [path for path in root.iterdir() if path.name != "good"]
    assert read_newest(root / "good").step == 3  # and has imported what it needs
    before = peak_memory()
    for case in sorted(cases, key=lambda path: int(path.name)):
        watching = True
        try:
            wrong.append(f"{case.name} is loaded: {read_newest(case)}")
        except SnapshotError as refusal:
            wrong += [f"{case.name}: {refusal}"] if "\n" in str(refusal) else []
        finally:
            watching = False
    memory = peak_memory() - before
    acts, watching = list(seen), True
    pickle.loads(pickle.dumps(Evil()))  # the control: the hook does see this
    watching = False
    result = {"cases": len(cases), "wrong": wrong, "acts": acts, "control": seen[len(acts) :]}
    return result | {"mb": memory}


def test_hostile_files_are_refused_and_nothing_they_say_is_done(tmp_path):
    result = run_trial(__file__, "feed_hostile_files", tmp_path)
    assert not result["wrong"]
    assert result["cases"] > 100
    assert result["acts"] == []
    assert {event for event, _ in result["control"]} >= {"pickle.find_class", "os.system"}
    assert result["mb"] < 64


if __name__ == "__main__":
    be_trial({"feed_hostile_files": feed_hostile_files})
