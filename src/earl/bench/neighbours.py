"""Rows about others on the machine: what a busy neighbour costs a process that learns."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass

import torch

from earl.bench.measured import Measured
from earl.bench.subjects import earl_midway, observing, on
from earl.bench.timing import Effort, Thing, take_turns
from earl.experiments.learners import threads_worth
from earl.experiments.machine import CALM, calm_idle_threads, cores
from earl.experiments.recipes import Value

SHARE = 2  # two processes on one core get half of its work each
SPIN = """
import os, select
while os.read(0, 1):
    while not select.select([0], [], [], 0)[0]:
        pass
    os.read(0, 1)
"""  # it spins from one byte to the next, and ends when its input ends
CHILD = "from earl.bench.neighbours import serve; serve()"


@dataclass(frozen=True)
class Work:
    """What a process learns: an experiment, samples of a turn, threads (0: its own choice)."""

    dataset: str
    shape: tuple[int, int, int]
    samples: int
    settings: Mapping[str, Value]
    threads: int = 0


DIGITS = Work("digits", (1, 16, 16), 20, {})
WIDTH_16 = Work("cifar10", (3, 32, 32), 2, {"width": 16})


def neighbour(effort: Effort) -> Iterator[Measured]:
    """Time learning beside a process that spins on each of its cores, and without.

    Half of every core is then the neighbour's, so that twice the time is no loss: what counts is
    half of the ratio. The same with two threads that spin while they wait shows what that would be.
    """
    calm = dict(os.environ)
    calm_idle_threads(calm)
    yield busy_by_quiet("digits", DIGITS, calm, effort, target=1.5)
    if effort.quick or cores() < SHARE:
        return
    yield busy_by_quiet("width 16", WIDTH_16, calm, effort, target=1.5)
    spinning = {name: value for name, value in os.environ.items() if name not in CALM}
    case, two = "digits, 2 threads that spin", Work("digits", (1, 16, 16), 20, {}, threads=2)
    yield busy_by_quiet(case, two, spinning, effort, target=None)


def busy_by_quiet(
    case: str, work: Work, env: Mapping[str, str], effort: Effort, *, target: float | None
) -> Measured:
    """Return the time beside spinning processes ÷ the time without, per share of a core."""
    with ExitStack() as open_:
        learn, threads = open_.enter_context(learning(work, env))
        spin = open_.enter_context(spinning_on(threads))

        def busy() -> float:
            with spin():
                return learn()

        times = take_turns({"busy": busy, "quiet": learn}, effort, clock=time.perf_counter)
    ratio = times.ratio("busy", "quiet")
    return Measured(
        case=f"{case}: beside a spinning process ÷ quiet, per core",
        value=ratio.value / SHARE,
        target=target,
        spread=(ratio.low / SHARE, ratio.high / SHARE),
        times={name: 1e3 * times.median(name) for name in times.seconds},
    )


@contextmanager
def learning(work: Work, env: Mapping[str, str]) -> Iterator[tuple[Thing, int]]:
    """Give a function that lets a separate process learn samples, and the threads that it takes."""
    command = [sys.executable, "-c", CHILD, json.dumps(asdict(work))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=env, **pipes) as process:  # type: ignore[call-overload]
        threads = int(process.stdout.readline())
        pin(process.pid, threads)

        def learn() -> float:
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        try:
            yield learn, threads
        finally:
            process.stdin.close()  # which is its end


@contextmanager
def spinning_on(threads: int) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Give a context in which a process spins on each of this many cores."""
    with ExitStack() as open_:
        command = [sys.executable, "-c", SPIN]
        spinners = [
            open_.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0))
            for _ in range(threads)
        ]
        for spinner in spinners:
            pin(spinner.pid, threads)

        @contextmanager
        def spin() -> Iterator[None]:
            turn(spinners)
            yield
            turn(spinners)

        yield spin


def turn(spinners: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Let processes that rest spin, and those that spin rest."""
    for spinner in spinners:
        assert spinner.stdin is not None
        spinner.stdin.write(b".")


def pin(process: int, threads: int) -> None:
    """Keep a process on the first of our cores, one for each thread, if the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        ours = sorted(os.sched_getaffinity(0))
        for thread in tasks_of(process):
            os.sched_setaffinity(thread, ours[:threads])


def tasks_of(process: int) -> list[int]:
    """Return the threads of a process: each has cores of its own, and new ones inherit them."""
    try:
        return [int(task) for task in os.listdir(f"/proc/{process}/task")]  # noqa: PTH208
    except FileNotFoundError:
        return [process]


def serve() -> None:
    """Be the process that learns: some samples for every line that comes in."""
    work = Work(**json.loads(sys.argv[1]))
    shape = tuple(work.shape)
    assert len(shape) == 3
    experiment = on(work.dataset, "earl", **work.settings)
    torch.set_num_threads(work.threads or threads_worth(experiment, shape))
    observe = observing(earl_midway(experiment, shape), work.samples)
    observe()  # its threads are there from now on
    say(torch.get_num_threads())
    for _ in sys.stdin:
        say(observe())


def say(answer: float) -> None:
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()
