"""Processes that decode images beside this one.

Not those of `multiprocessing`: they would run the script that asked for a data set once more, which
takes seconds if it imports much and does everything twice if it has no `if __name__ == ...`. These
import what decodes and nothing else. Whatever one of them cannot do is done here.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from numpy.lib.format import open_memmap

from earl.data.parts import FilePart, ParquetPart, Part

KINDS: Mapping[str, Callable[..., Part]] = {"FilePart": FilePart, "ParquetPart": ParquetPart}
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from earl.data.decoders import serve; serve()"
)

Job = Callable[[], dict[int, str]]  # of a part: it returns which rows are broken, and why


class Pool(Protocol):
    """What takes jobs; threads do too."""

    def submit(self, job: Job, /) -> Future[dict[int, str]]: ...


@dataclass(frozen=True)
class Decoding:
    """A job: the images of a part go to their rows of a .npy file, uint8 (N, 3, size, size)."""

    part: Part
    target: str
    start: int

    def __call__(self) -> dict[int, str]:
        array = open_memmap(self.target, mode="r+")
        return self.part.decode(array[self.start : self.start + len(self.part)])


class Decoders:
    """A number of processes, of which each takes a job at a time; their work outlives them."""

    def __init__(self, n: int) -> None:
        command = [sys.executable, "-c", START, json.dumps([str(place) for place in sys.path])]
        self._all: list[subprocess.Popen[bytes]] = []
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._threads = ThreadPoolExecutor(n, thread_name_prefix="earl-decoders")
        self._ended = False
        with contextlib.suppress(OSError):  # there may be room for fewer, or none
            for _ in range(n):
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self._all.append(process)
                self._free.put(process)

    def __len__(self) -> int:
        return len(self._all)

    def __enter__(self) -> "Decoders":
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended = True
        for process in self._all:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.communicate()

    def submit(self, job: Job, /) -> Future[dict[int, str]]:
        """Have a job done by the next process that is free."""
        return self._threads.submit(self._elsewhere, job)

    def _elsewhere(self, job: Job) -> dict[int, str]:
        process = self._free.get()
        try:
            broken = ask(process, job)
        finally:
            self._free.put(process)
        if broken is None and not self._ended:
            broken = job()  # where one sees why it failed
        return broken or {}


def ask(process: "subprocess.Popen[bytes]", job: Job) -> dict[int, str] | None:
    """Have a process do a job; None says that it could not."""
    assert process.stdin is not None and process.stdout is not None
    if not isinstance(job, Decoding) or not isinstance(job.part, FilePart | ParquetPart):
        return None
    order = {**vars(job), "part": asdict(job.part), "kind": type(job.part).__name__}
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or "null")
    except (OSError, ValueError):  # it has died, perhaps within its answer
        return None
    return None if answer is None else {int(row): why for row, why in answer.items()}


def serve() -> None:
    """Be such a process: do the jobs that standard input brings, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that asks decides when to stop
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may come between the answers
    for line in sys.stdin:
        answers.write(json.dumps(attempt(json.loads(line))) + "\n")
        answers.flush()


def attempt(order: dict[str, Any]) -> dict[int, str] | None:
    """Do a job; None says that it failed."""
    part = KINDS[order.pop("kind")](**order.pop("part"))
    try:
        return Decoding(part, **order)()
    except Exception:  # anything: it will be tried again where it can be told
        return None
