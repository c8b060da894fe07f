"""Work in a second thread, one piece at a time: whoever learns need not wait for the disk."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as until_done
from math import inf


class Background:
    """Does work beside its owner, who hears of its errors and waits for it before he ends.

    The process ends only after the thread has let go of everything: one that still held tensors
    while the interpreter ended would abort the process.
    """

    def __init__(self) -> None:
        self.seconds = 0.0  # that the last piece of work has taken; endless while it goes on
        self._thread = ThreadPoolExecutor(1, "earl-background")
        self._work: Future[None] | None = None  # whose error has not been raised yet

    def start(self, work: Callable[[], object]) -> None:
        """Begin with a piece of work when the one before has ended, whose error is raised here."""
        self.wait()
        self.seconds = inf
        self._work = self._thread.submit(self._do, work)

    @property
    def busy(self) -> bool:
        """Whether a piece of work goes on."""
        return self._work is not None and not self._work.done()

    def check(self) -> None:
        """Raise the error of work that has ended with one, once; never wait."""
        if self._work is not None and self._work.done():
            ended, self._work = self._work, None
            ended.result()

    def wait(self) -> None:
        """Wait until no work goes on; raise its error."""
        if self._work is not None:
            until_done([self._work])
        self.check()

    def _do(self, work: Callable[[], object]) -> None:
        begun = time.monotonic()
        try:
            work()
        finally:
            self.seconds = time.monotonic() - begun
