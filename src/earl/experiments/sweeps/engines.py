"""Engines: what carries out the runs of a sweep, each as a process of its own.

An engine starts the words of an `earl run` command and gives a job, which can be asked how it ended
and told to stop. The sweep decides all else: what to run, and what to run again.
"""

import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from earl.errors import EarlError, InvalidSetting
from earl.experiments.machine import check_threads, cores
from earl.storage.reading import open_to_append

if TYPE_CHECKING:
    from types import TracebackType

PAUSE = 0.1  # seconds between two looks at a process


class Job(Protocol):
    """A run that was handed to an engine."""

    def poll(self) -> int | None:
        """Return the exit code once the run has ended, negative if a signal ended it."""

    def stop(self) -> None:
        """Ask the run to save and end; return without waiting."""

    def wait(self) -> None:
        """Wait until nothing of the run is left."""


class Engine(Protocol):
    """Carries out some runs at a time, each with the given threads, or as many as it is worth."""

    slots: int

    @property
    def threads(self) -> int | None:
        """The threads that were asked for."""

    def start(self, words: Sequence[str], log: Path) -> Job:
        """Carry out `earl <words>`; what it says is added to the log."""


def start_process(
    words: Sequence[str], log: Path, most: int | None = None, folder: Path | None = None
) -> "subprocess.Popen[bytes]":
    """Start `earl <words>` as a process; it saves and ends when its standard input is closed.

    It takes at most this many threads, unless the words or the user's environment say otherwise. It
    works in the folder, where modules of the user's own may lie, if this machine has it.
    """
    share = {} if most is None else {"OMP_NUM_THREADS": str(most)}
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_to_append(log) as file:
        file.write(f"$ {shlex.join(['earl', *words])}\n".encode())
        file.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "earl.cli.worker", *words],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=share | os.environ,
            cwd=folder if folder is not None and folder.is_dir() else None,
        )


def close_input(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()


class LocalEngine:
    """Runs on this machine, some at a time, which share its cores unless told otherwise."""

    def __init__(self, workers: int = 1, threads: int | None = None) -> None:
        if workers < 1:
            raise InvalidSetting(f"workers = {workers} must be at least 1")
        self.slots, self.threads = workers, threads and check_threads(threads)
        self.share = max(1, cores() // workers)

    def start(self, words: Sequence[str], log: Path) -> "LocalJob":
        return LocalJob(start_process(words, log, self.share))


class LocalJob:
    """A process of this machine."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def poll(self) -> int | None:
        code = self.process.poll()
        if code is not None:
            close_input(self.process)
        return code

    def stop(self) -> None:
        close_input(self.process)

    def wait(self) -> None:
        self.process.wait()


class RayEngine:
    """Runs on a Ray cluster, or on a Ray of this machine's own that ends with the engine.

    All machines must have earl, and see the run directories and the data under the same paths.
    Ray decides what runs when: a run takes `threads` CPUs and `gpus` GPUs. A run whose machine is
    lost begins again elsewhere, from its newest snapshot.
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        threads: int = 1,
        gpus: float = 0.0,
        workers: int | None = None,
    ) -> None:
        """Connect to a cluster ("auto" or "host:port"); without an address start a Ray here."""
        try:
            import ray
        except ImportError:
            raise EarlError(
                'Ray is not installed here; try: pip install "earl-learn[ray]"'
            ) from None
        self.slots, self.threads = workers or sys.maxsize, threads
        try:
            ray.init(
                address=address,
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise EarlError(f"cannot reach Ray at {address or 'this machine'}: {error}") from error
        have = ray.cluster_resources()
        for name, wanted in (("CPU", threads), ("GPU", gpus)):
            if not address and wanted > have.get(name, 0):  # a cluster may grow, a machine does not
                ray.shutdown()
                raise EarlError(f"a run needs {name}s: {wanted:g}; here are {have.get(name, 0):g}")
        self._run = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=3)(run_subprocess)

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: "TracebackType | None",
    ) -> None:
        import ray

        ray.shutdown()

    def start(self, words: Sequence[str], log: Path) -> "RayJob":
        return RayJob(self._run.remote(list(words), log, Path.cwd()))


class RayJob:
    """A task of a Ray cluster."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def poll(self) -> int | None:
        import ray

        done, _ = ray.wait([self.reference], timeout=0)
        if not done:
            return None
        try:
            return int(ray.get(self.reference))
        except ray.exceptions.RayTaskError:
            raise  # an error of `run_subprocess`, such as a full disk
        except ray.exceptions.RayError:  # its worker or machine is lost, and so were the next ones
            return -signal.SIGKILL

    def stop(self) -> None:
        import ray

        ray.cancel(self.reference)

    def wait(self) -> None:
        import ray

        ray.wait([self.reference])


def run_subprocess(words: list[str], log: Path, folder: Path) -> int:
    """Carry out a run to its end and return the exit code; an interrupt stops and saves it."""
    process = start_process(words, log, folder=folder)
    try:
        while process.poll() is None:  # not `wait`, which Ray cannot interrupt
            time.sleep(PAUSE)
    finally:
        close_input(process)
        process.wait()  # Ray kills what its worker leaves behind
    return process.returncode
