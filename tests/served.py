"""A service in a process of its own, and images to teach it, for tests that talk to it."""

import io
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from children import Children

COLOURS = {"sky": (40, 90, 200), "sand": (230, 190, 110), "wood": (60, 40, 20)}
SMALL = ("--image-size", "16", "--memory-size", "60", "--steps-per-sample", "4")
SETTINGS = {"depth": 4, "width": 16, "d": 31, "hidden": 32, "lr": 3e-3, "batch_size": 8}


def picture(kind: str, seed: int = 0, number: int = 0) -> bytes:
    """Return a noisy image of one colour as the bytes of a PNG file."""
    noise = np.random.default_rng((seed, number)).integers(-30, 31, (20, 20, 3))
    pixels = np.clip(np.array(COLOURS[kind]) + noise, 0, 255).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


@dataclass(frozen=True)
class Served:
    """Where a service is, and the token of its first start."""

    url: str
    token: str

    @property
    def page(self) -> str:
        return f"{self.url}#token={self.token}"


@contextmanager
def serving(children: Children, folder: Path, *more: str) -> Iterator[Served]:
    """Start a service with a small network, and stop it."""
    folder.mkdir(parents=True, exist_ok=True)
    out, err = folder / "out.txt", folder / "err.txt"
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    words = ("-m", "earl", "serve", "--state", str(folder / "state"), "--port", "0")
    pid = children.start(
        *words, *SMALL, *settings, *more, cwd=folder, env=os.environ, out=out, err=err
    )
    try:
        yield found(out, err)
    finally:
        os.kill(pid, signal.SIGTERM)
        code = children.wait()
    assert code == 0, err.read_text(encoding="utf-8")


def found(out: Path, err: Path) -> Served:
    """Return the service that is starting, as soon as it says where it is."""
    for _ in range(600):
        text = out.read_text(encoding="utf-8") if out.exists() else ""
        where = re.search(r"Serving (\S+)", text)
        if where:
            token = re.search(r"#token=(\S+)", text)
            return Served(where[1], token[1] if token else "")
        time.sleep(0.1)
    raise AssertionError(f"the service did not start: {err.read_text(encoding='utf-8')}")
