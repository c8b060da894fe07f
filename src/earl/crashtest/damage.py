"""Damage to the files of a snapshot: of bytes, and of which files there are."""

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

FILES = ("state.safetensors", "manifest.json")


def flip(whole: bytes, rng: random.Random) -> bytes:
    """Turn one bit."""
    i = rng.randrange(len(whole))
    return whole[:i] + bytes([whole[i] ^ 1 << rng.randrange(8)]) + whole[i + 1 :]


def cut(whole: bytes, rng: random.Random) -> bytes:
    """Leave the end out."""
    return whole[: rng.randrange(len(whole))]


def blank(whole: bytes, rng: random.Random) -> bytes:
    """Fill a sector or a page with zeros; a page that holds zeros only has one bit turned."""
    start = rng.randrange(0, max(1, len(whole) - 512), 512)
    zeros = bytes(rng.choice([512, 4096]))[: len(whole) - start]
    blanked = whole[:start] + zeros + whole[start + len(zeros) :]
    return blanked if blanked != whole else flip(whole, rng)


def add(whole: bytes, rng: random.Random) -> bytes:
    """Put some bytes in between."""
    i = rng.randrange(len(whole) + 1)
    return whole[:i] + rng.randbytes(rng.randint(1, 9)) + whole[i:]


def double(whole: bytes, rng: random.Random) -> bytes:
    """Have everything twice."""
    return whole + whole


OF_BYTES = (flip, cut, blank, add, double)


def swap(a: Path, b: Path) -> None:
    a.rename(a.with_name("aside"))
    b.rename(a)
    a.with_name("aside").rename(b)


def link(path: Path, target: str) -> None:
    path.rename(path.parent.parent / "moved")
    path.symlink_to(target)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replaced(new: Path, old: Path) -> None:
    shutil.rmtree(new)
    shutil.copytree(old, new)


def emptied(new: Path) -> None:
    shutil.rmtree(new)
    new.mkdir()


def a_file(new: Path) -> None:
    shutil.rmtree(new)
    new.touch()


def a_link(new: Path, old: Path) -> None:
    shutil.rmtree(new)
    new.symlink_to(old.name)


# By name, what is done to the newer and the older snapshot; the older one stays whole.
STRUCTURAL: Mapping[str, Callable[[Path, Path], object]] = {
    "no tensors": lambda new, old: (new / "state.safetensors").unlink(),
    "no manifest": lambda new, old: (new / "manifest.json").unlink(),
    "a foreign file": lambda new, old: (new / "notes").touch(),
    "a file twice": lambda new, old: shutil.copy(new / "manifest.json", new / "manifest.json~"),
    "a foreign directory": lambda new, old: (new / "deeper").mkdir(),
    "an empty directory": lambda new, old: emptied(new),
    "a file instead": lambda new, old: a_file(new),
    "the older one again": replaced,
    "a link to the older one": a_link,
    "its two files swapped": lambda new, old: swap(
        new / "state.safetensors", new / "manifest.json"
    ),
    "tensors of the older one": lambda new, old: shutil.copy(old / "state.safetensors", new),
    "manifest of the older one": lambda new, old: shutil.copy(old / "manifest.json", new),
    "manifest through a link": lambda new, old: link(new / "manifest.json", "../moved"),
    "tensors through a link": lambda new, old: link(new / "state.safetensors", "../moved"),
    "tensors from a device": lambda new, old: link(new / "state.safetensors", "/dev/zero"),
    "tensors from a pipe": lambda new, old: pipe(new / "state.safetensors"),
}


def damages(rng: random.Random) -> Iterator[tuple[str, Callable[[Path, Path], object]]]:
    """Yield names of damages without end, and what does each to the newer of two snapshots."""
    while True:
        if rng.random() < 0.2:
            name = rng.choice(list(STRUCTURAL))
            yield name, STRUCTURAL[name]
        else:
            change, file, seed = rng.choice(OF_BYTES), rng.choice(FILES), rng.random()
            yield f"{change.__name__} {file}", rewriting(change, file, random.Random(seed))


def rewriting(
    change: Callable[[bytes, random.Random], bytes], file: str, rng: random.Random
) -> Callable[[Path, Path], object]:
    def act(new: Path, old: Path) -> None:
        (new / file).write_bytes(change((new / file).read_bytes(), rng))

    return act


def tree(root: Path) -> dict[str, object]:
    """Return all there is at and below a path: names, links and bytes."""
    return {
        path.relative_to(root).as_posix(): path.readlink()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else path.is_dir()
        for path in sorted([root, *root.rglob("*")])
        if path != root or not path.is_dir() or path.is_symlink()
    }
