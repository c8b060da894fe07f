"""A service in a process of its own, for tests that talk to it."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from children import Children

SMALL = ("--image-size", "16", "--memory-size", "60", "--steps-per-sample", "4")
SETTINGS = {"depth": 8, "width": 4, "d": 31, "hidden": 32, "lr": 3e-3, "batch_size": 8}


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
