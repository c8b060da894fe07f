"""Ranks of torchrun learn what one process learns, and a run survives the loss of one."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from children import Children
from earl.experiments.catalogue import METHODS
from earl.experiments.runs.directory import RunDirectory
from earl.storage.snapshot import read_newest
from earl.storage.state import digest
from processes import below, parent

TESTS = str(Path(__file__).parents[1])
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
RUN = ["run", "--method", "earl", "--dataset", "shapes", "--stream", "disjoint"]
RUN += ["--set", "depth=4", "--set", "every=20", "--threads", "1"]
RUN += ["--snapshot-seconds", "0", "--rank-timeout", "10"]
PLACE = "shapes/disjoint/earl,depth=4,every=20/seed-1"
FORK_RANKS = f"import sys; sys.path[:0] = [{TESTS!r}]; import ranks; ranks.fork_ranks(2, "

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")


def agree(ranks: int) -> str:
    """Return what the comparison of ranks with one process prints; it must succeed."""
    command = [*TORCHRUN, f"--nproc-per-node={ranks}", f"{TESTS}/ranks.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_ranks_learn_what_one_process_learns(children: Children, tmp_path: Path) -> None:
    done = children.run("-c", FORK_RANKS + "ranks.main)", "earl", "ewc", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "earl agrees\newc agrees\n"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_method_learns_the_same_on_ranks(ranks: int) -> None:
    assert agree(ranks) == "".join(f"{name} agrees\n" for name in METHODS.names())


class Launched:
    """A run by two ranks, started with torchrun."""

    def __init__(self, out: Path) -> None:
        self.log = out.with_suffix(".log")
        command = [*TORCHRUN, "--nproc-per-node=2", "--max-restarts=5", "-m", "earl", *RUN]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*command, "--out", str(out)], stdout=log, stderr=log)
        self.path = out / PLACE

    def ranks(self) -> list[int]:
        """Return the processes of the two ranks, in this order."""
        return below(self.process.pid)

    def wait_for(self, evaluations: int) -> None:
        """Wait until the run has come so far and both ranks work at it."""
        end = time.monotonic() + 120
        while evaluations_in(self.path) < evaluations or len(self.ranks()) != 2:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < end, self.log.read_text()[-3000:]
            time.sleep(0.02)

    def end(self) -> int:
        """Wait for the end and return its code."""
        return self.process.wait(timeout=200)

    def result(self) -> tuple[bytes, str]:
        """Return all evaluations, and what the learner has become, to the bit."""
        assert RunDirectory(self.path).summary is not None, self.log.read_text()[-3000:]
        newest = read_newest(self.path / "snapshots")
        assert newest is not None
        return (self.path / "history.jsonl").read_bytes(), digest(newest.state)


def evaluations_in(path: Path) -> int:
    file = path / "history.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@contextmanager
def launch(out: Path) -> Iterator[Launched]:
    launched = Launched(out)
    try:
        yield launched
    finally:
        for pid in [*launched.ranks(), launched.process.pid]:
            with_signal(pid, signal.SIGKILL)
        launched.process.wait()


def with_signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def assert_one_wrote_and_all_stopped(path: Path, said: str) -> None:
    assert said.count("Stopped and saved. Go on with: earl resume") == 1
    newest = read_newest(path / "snapshots")
    assert newest is not None and 40 <= newest.step < 160
    told = re.findall(r"(\d+) of 160 samples", said)
    assert told and len(told) == len(set(told))  # not once by each rank


def test_the_first_rank_alone_writes_and_a_signal_stops_and_saves_all(
    children: Children, tmp_path: Path
) -> None:
    words = ["-c", FORK_RANKS + "ranks.earl)", *RUN, "--out", "runs"]
    out, err, path = tmp_path / "out", tmp_path / "err", tmp_path / "runs" / PLACE
    process = children.start(*words, cwd=tmp_path, env=os.environ, out=out, err=err)
    end = time.monotonic() + 120
    while evaluations_in(path) < 2:
        assert time.monotonic() < end, err.read_text()[-3000:]
        time.sleep(0.02)
    os.kill(process, signal.SIGTERM)
    assert children.wait() == 2, err.read_text()[-3000:]  # ranks that were stopped
    assert_one_wrote_and_all_stopped(path, err.read_text())


@pytest.mark.slow
def test_a_signal_to_torchrun_does_the_same(tmp_path: Path) -> None:
    with launch(tmp_path / "stopped") as run:
        run.wait_for(2)
        run.process.terminate()
        run.end()
        assert_one_wrote_and_all_stopped(run.path, run.log.read_text())


@pytest.mark.slow
def test_a_run_survives_killed_ranks_to_the_bit(tmp_path: Path) -> None:
    with launch(tmp_path / "whole") as whole:
        assert whole.end() == 0
    choose = random.Random(1)
    with launch(tmp_path / "killed") as run:
        for evaluations in (2, 4, 6):
            run.wait_for(evaluations)
            with_signal(choose.choice(run.ranks()), signal.SIGKILL)
            time.sleep(1)  # until torchrun has noticed
        assert run.end() == 0
        assert run.result() == whole.result()
        assert run.log.read_text().count("exitcode: -9") == 3


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_survives_a_rank_that_hangs(tmp_path: Path, rank: int) -> None:
    with launch(tmp_path / "whole") as whole:
        assert whole.end() == 0
    with launch(tmp_path / "hung") as run:
        run.wait_for(3)
        before = run.ranks()
        os.kill(before[rank], signal.SIGSTOP)
        stopped = time.monotonic()
        other = before[1 - rank]
        while Path(f"/proc/{other}").exists() and parent(other) is not None:
            assert time.monotonic() - stopped < 30, "the hung rank was not noticed"
            time.sleep(0.1)
        assert run.end() == 0
        assert run.result() == whole.result()
