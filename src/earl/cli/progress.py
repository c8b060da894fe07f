"""Following a run: a progress bar on a terminal, plain lines elsewhere, and a stop that saves."""

import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from earl.evaluation.loop import Moment


class Stopped(Exception):
    """A signal asked the run to stop; it is saved."""

    def __init__(self, number: int) -> None:
        self.number = number


class Stop:
    """Remembers the first SIGINT or SIGTERM, so that a run ends between two samples."""

    def __init__(self, *, at_once: bool) -> None:
        self.number: int | None = None
        self.at_once = at_once

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:  # asked twice: do not wait any longer
            raise KeyboardInterrupt
        self.number = number
        if self.at_once:
            raise Stopped(number)


@contextmanager
def stop_on_signal(*, at_once: bool = False) -> Iterator[Stop]:
    """Within this context the first Ctrl-C or SIGTERM only sets `stop.number`.

    With `at_once` it raises Stopped instead: for what has nothing to save.
    """
    stop = Stop(at_once=at_once)
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(
    moments: Generator[Moment],
    *,
    name: str,
    console: Console,
    agree: Callable[[int], int] = int,
) -> None:
    """Run to the end and show how it goes; a signal closes the iterator and raises Stopped.

    Where several processes run together they `agree` on a signal, so that all stop at one sample.
    """
    show = bar if console.is_terminal else lines
    with stop_on_signal() as stop:
        painter = show(name, console)
        next(painter)
        for moment in moments:
            painter.send(moment)
            if number := agree(stop.number or 0):
                painter.close()
                moments.close()  # the run saves itself before it goes
                raise Stopped(number)
        painter.close()


def bar(name: str, console: Console) -> Generator[None, Moment, None]:
    """Paint a live bar with the accuracy at any time."""
    columns = (
        TextColumn("{task.description:>14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[accuracy]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(name, total=None, accuracy="")
        while True:
            moment = yield
            progress.update(task, completed=moment.step, total=moment.total)
            if moment.evaluation:
                e = moment.evaluation
                text = f"{100 * e.accuracy:5.1f} % on {len(e.total)} classes"
                progress.update(task, accuracy=text)


def lines(name: str, console: Console) -> Generator[None, Moment, None]:
    """Print about ten lines in all, with the newest accuracy and the time that is left.

    A line comes with an evaluation after a tenth of the samples, without one after a fifth.
    """
    begun, first, shown, known = time.monotonic(), None, 0, ""
    while True:
        moment = yield
        first = moment.step - 1 if first is None else first
        if e := moment.evaluation:
            known = f", {len(e.total)} classes, accuracy {100 * e.accuracy:.1f} %"
        due = moment.total / (10 if e else 5)
        if moment.step == moment.total or moment.step - shown >= due:
            shown, left = moment.step, moment.total - moment.step
            seconds = (time.monotonic() - begun) * left / (moment.step - first)
            rest = f", about {clock(seconds)} left" if left else ""
            text = f"{name}: {moment.step} of {moment.total} samples{known}{rest}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds.

    >>> clock(59.6), clock(3725)
    ('1:00', '1:02:05')
    """
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"
