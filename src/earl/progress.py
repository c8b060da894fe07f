"""Following a run: a progress bar on a terminal, plain lines elsewhere, and a stop that saves."""

import signal
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

from earl.run import Moment


class Stopped(Exception):
    """A signal asked the run to stop; it is saved."""

    def __init__(self, number: int) -> None:
        self.number = number


class Stop:
    """Remembers the first SIGINT or SIGTERM, so that a run ends between two samples."""

    def __init__(self) -> None:
        self.number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:  # asked twice: do not wait any longer
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Within this context the first Ctrl-C or SIGTERM only sets `stop.number`."""
    stop = Stop()
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
    """Print about ten lines in all."""
    shown = 0
    while True:
        moment = yield
        e = moment.evaluation
        if e and (e.step == moment.total or e.step - shown >= moment.total / 10):
            shown = e.step
            console.print(
                f"{name}: {e.step} of {moment.total} samples, {len(e.total)} classes, "
                f"accuracy {100 * e.accuracy:.1f} %",
                highlight=False,
            )
