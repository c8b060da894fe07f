"""Short lives: children that are forked from a process that has imported everything.

A new Python needs seconds until torch is there. A fork is as much a process of its own, and a kill
ends it as surely.
"""

import json
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LEARNED, SAVED = b"L", b"S"
_WORD = struct.Struct("<cq")

Tell = Callable[[bytes, int], None]

_alive: set[int] = set()  # children that have not been waited for


def fork(act: Callable[[], int]) -> int:
    """Do something in a child that ends without cleaning up; return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        _alive.add(child)
        return child
    _alive.clear()
    code = 99
    try:
        code = act()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """Return the exit code of a child, when it has ended."""
    _alive.discard(child)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def end_all() -> None:
    """Kill the children that are left, as when a harness has ended early."""
    for child in list(_alive):
        os.kill(child, signal.SIGKILL)
        ended(child)


def in_child(act: Callable[[], object]) -> int:
    """Do something in a child; return its exit code, which is what `act` returns, or 0 for None."""

    def end() -> int:
        code = act()
        return code if isinstance(code, int) else 0

    return ended(fork(end))


def ask_child(act: Callable[[], Any]) -> Any:
    """Return what a function returns in a child, by way of JSON; None if the child failed."""
    answer, question = os.pipe()

    def tell() -> int:
        with os.fdopen(question, "w", encoding="utf-8") as pipe:
            pipe.write(json.dumps(act()))
        return 0

    child = fork(tell)
    os.close(question)
    with os.fdopen(answer, encoding="utf-8") as pipe:
        text = pipe.read()
    return json.loads(text) if ended(child) == 0 else None


def hush() -> None:
    """Have all that this process prints lost."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def quietly(act: Callable[[], object]) -> int:
    """Do something in a child whose output nobody sees; return its exit code."""

    def hushed() -> object:
        hush()
        return act()

    return in_child(hushed)


@dataclass
class Life:
    """A child that tells of every sample it has learned and of every state it has saved."""

    pid: int
    pipe: int
    learned: int = 0  # samples that this life has learned
    saved: int = 0  # the step of the last state that it said was saved
    told: bytes = b""
    silent: bool = False  # it has ended

    @classmethod
    def begin(cls, act: Callable[[Tell], None]) -> "Life":
        """Fork a child that does something, and ends with 0 unless that fails."""
        ear, mouth = os.pipe()

        def live() -> int:
            os.close(ear)
            act(lambda kind, number: _write(mouth, kind, number))
            return 0

        child = fork(live)
        os.close(mouth)
        return cls(child, ear)

    def hear(self, samples: int) -> None:
        """Wait until this life has learned so many samples, or has ended."""
        while self.learned < samples and not self.silent:
            self._hear()

    def kill(self) -> int:
        """Kill it, hear what it still said, and return its exit code: -9 if the kill ended it."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> int:
        """Return the exit code, when it has ended."""
        while not self.silent:
            self._hear()
        os.close(self.pipe)
        return ended(self.pid)

    def _hear(self) -> None:
        data = os.read(self.pipe, 4096)
        self.silent = not data
        self.told += data
        while len(self.told) >= _WORD.size:
            kind, number = _WORD.unpack(self.told[: _WORD.size])
            self.told = self.told[_WORD.size :]
            self.learned += kind == LEARNED
            self.saved = number if kind == SAVED else self.saved


def _write(pipe: int, kind: bytes, number: int) -> None:
    os.write(pipe, _WORD.pack(kind, number))


def pause(seconds: float) -> None:
    """Let a life go on for a while."""
    time.sleep(seconds)
