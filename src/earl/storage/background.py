"""Work in a second thread, one piece at a time: whoever learns need not wait for the disk."""

import _thread
import time
from collections.abc import Callable
from math import inf
from threading import Event


class Background:
    """Does work beside its owner, who hears of its errors and waits for it before he ends."""

    def __init__(self) -> None:
        self.seconds = 0.0  # that the last piece of work has taken; endless while it goes on
        self._error: BaseException | None = None
        self._idle = Event()
        self._idle.set()

    def start(self, work: Callable[[], object]) -> None:
        """Begin with a piece of work when the one before has ended, whose error is raised here."""
        self.wait()
        self._idle.clear()
        self.seconds = inf
        # Not threading.Thread: it waits until the thread runs, on a busy machine for long.
        _thread.start_new_thread(self._do, (work,))

    @property
    def busy(self) -> bool:
        """Whether a piece of work goes on."""
        return not self._idle.is_set()

    def check(self) -> None:
        """Raise the error of work that has ended with one, once; never wait."""
        if not self.busy and self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Wait until no work goes on; raise its error."""
        self._idle.wait()
        self.check()

    def _do(self, work: Callable[[], object]) -> None:
        begun = time.monotonic()
        try:
            work()
        except BaseException as error:
            self._error = error
        finally:
            self.seconds = time.monotonic() - begun
            self._idle.set()
