"""Runs as files: stopped, killed, damaged, asked for twice – and the same result each time."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from earl.errors import DirectoryInUse, EarlError, SnapshotError
from earl.evaluation.history import read_history
from earl.experiments.runs import saves
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.files import FORMAT
from earl.storage.snapshot import read_newest
from small_runs import SMALL, assert_same, experiment, finish, stop
from snapshots import flip_bit

KILLS = {"earl": 20, "er": 10}


def test_a_run_leaves_a_readable_record(whole: RunDirectory) -> None:
    assert {p.name for p in whole.path.iterdir()} == {
        "LOCK",
        "experiment.json",
        "history.jsonl",
        "snapshots",
        "summary.json",
    }
    record = json.loads((whole.path / "experiment.json").read_text())
    assert record["experiment"]["method"] == "earl" and record["settings"]["k"] == 15
    assert record["format"] == FORMAT
    assert record["environment"]["threads"] == 1
    history = whole.history
    assert [e.step for e in history] == [20, 40, 60, 80]
    assert history[-1].online_total == 80 and len(history[-1].total) == 4
    assert whole.summary is not None
    assert set(whole.summary["metrics"]) == {"A_AUC", "A_last", "AOA", "forgetting"}


def test_a_run_that_has_ended_is_not_run_again(whole: RunDirectory) -> None:
    before = {p: p.stat().st_mtime_ns for p in whole.path.rglob("*") if p.is_file()}
    assert list(RunDirectory(whole.path, experiment()).run()) == []
    assert {p: p.stat().st_mtime_ns for p in before} == before


@pytest.mark.parametrize(
    "stops",
    [
        (1,),
        (7, 8, 9, 79, 80),
        *(pytest.param(s, marks=pytest.mark.slow) for s in [(20,), (21, 49)]),
    ],
)
def test_leaving_the_loop_saves_and_the_run_goes_on_exactly(
    stops: tuple[int, ...], whole: RunDirectory, tmp_path: Path
) -> None:
    for step in stops:
        stop(RunDirectory(tmp_path, experiment()), step)
        newest = read_newest(tmp_path / "snapshots")
        assert newest is not None and newest.step == step
    assert_same(finish(RunDirectory(tmp_path)), whole)


def test_snapshots_in_between_change_nothing(whole: RunDirectory, tmp_path: Path) -> None:
    assert_same(finish(RunDirectory(tmp_path, experiment()), snapshot_seconds=0.0), whole)


def test_learning_goes_on_while_a_snapshot_is_written(
    whole: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write, steps = Event(), saves.write_snapshot, []

    def held(root: Path, step: int, *rest: Any, **named: Any) -> Path:
        steps.append(step)
        assert gate.wait(60)
        return write(root, step, *rest, **named)

    monkeypatch.setattr(saves, "write_snapshot", held)
    run = RunDirectory(tmp_path, experiment())
    for moment in run.run(device="cpu", threads=1, snapshot_seconds=0.0):
        if moment.step == 45:  # two evaluations are in the history by now
            assert steps == [1] and not (tmp_path / "snapshots").exists()
            gate.set()
    assert len(steps) > 1
    assert_same(run, whole)


NURSERY = f"""
import faulthandler, os, sys
from pathlib import Path
import torch._dynamo  # an optimiser would, in every life
import earl.data.sets.shapes, earl.methods.earl.earl, earl.methods.er
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory

for line in sys.stdin:  # every line is a new life, born with everything imported
    path, method = line.split()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60)  # should it ever hang, one sees where
        names = {{"method": method, "dataset": "shapes", "stream": "gaussian"}}
        experiment = Experiment(**names, settings={SMALL})
        run = RunDirectory(Path(path), experiment)
        for moment in run.run(device="cpu", threads=1, snapshot_seconds=0.0):
            print(moment.step, flush=True)
        print("end", flush=True)
        os._exit(0)
    print("born", child, flush=True)
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


class Nursery:
    """A process that starts runs as processes of their own, which can be killed one by one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process that starts the runs has died"
        return line.strip()

    def start(self, path: Path, method: str) -> int:
        """Start or go on with a run; return its process."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path} {method}\n")
        self.process.stdin.flush()
        word, child = self.line().split()
        assert word == "born"
        return int(child)

    def steps(self) -> Iterator[str]:
        """Yield the run's steps, and "end" when it has ended, until its process is dead."""
        while (line := self.line()) != "dead":
            yield line


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.process.kill()
    nursery.process.communicate()


@pytest.mark.slow  # `python -m earl.crashtest kills-run` in small is in the default suite
@pytest.mark.parametrize("method", ["earl", "er"])
def test_killed_at_random_moments_the_run_ends_the_same(
    method: str, nursery: Nursery, whole: RunDirectory, tmp_path: Path
) -> None:
    """SIGKILL at random moments, over as many runs as that takes."""
    if method != whole.experiment.method:
        whole = finish(RunDirectory(tmp_path / "whole", experiment(method)))
    dice = random.Random(method)
    kills, runs, reached = 0, 0, []
    while kills < KILLS[method]:
        path = tmp_path / f"run-{runs}"
        runs += 1
        while not (path / "summary.json").exists():
            child = nursery.start(path, method)
            patience = dice.randrange(20) if kills < KILLS[method] else 10**6
            last = "0"
            for count, last in enumerate(nursery.steps()):
                if count == patience and last != "end":
                    time.sleep(dice.random() * 0.01)  # anywhere inside a step or a snapshot
                    os.kill(child, signal.SIGKILL)
                    kills += 1
            reached.append(last)
        assert_same(RunDirectory(path), whole)
    print(f"kills={kills} runs={runs} identical={runs} reached={reached}")
    assert kills == KILLS[method]


def test_two_processes_cannot_share_a_run(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.start(tmp_path / "run", "er")
    steps = nursery.steps()
    assert next(steps) == "1"
    with pytest.raises(DirectoryInUse, match="in use by another run"):
        next(RunDirectory(tmp_path / "run", experiment("er")).run())
    os.kill(child, signal.SIGKILL)
    assert "end" not in list(steps)
    next(RunDirectory(tmp_path / "run", experiment("er")).run())  # no cleaning up needed


def stopped_at(path: Path, step: int) -> None:
    stop(RunDirectory(path, experiment()), step, snapshot_seconds=0.0)


def test_a_torn_line_and_lines_after_the_snapshot_are_repaired(
    whole: RunDirectory, tmp_path: Path
) -> None:
    stopped_at(tmp_path, 45)
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write((whole.path / "history.jsonl").read_text().splitlines()[2] + "\n" + '{"step":')
    assert len(read_history(tmp_path / "history.jsonl")) == 3
    assert_same(finish(RunDirectory(tmp_path)), whole)


def test_a_damaged_snapshot_is_skipped_with_a_note(whole: RunDirectory, tmp_path: Path) -> None:
    stopped_at(tmp_path, 45)
    newest = max((tmp_path / "snapshots").glob("snap-*"))
    flip_bit(newest / "state.safetensors", -100)
    run = finish(RunDirectory(tmp_path))
    assert any("damaged" in note for note in run.notes)
    assert_same(run, whole)


def test_without_a_whole_snapshot_the_run_is_refused_not_restarted(tmp_path: Path) -> None:
    stopped_at(tmp_path, 25)
    for file in (tmp_path / "snapshots").glob("snap-*/state.safetensors"):
        file.write_bytes(b"nothing")
    with pytest.raises(SnapshotError, match="no snapshot"):
        next(RunDirectory(tmp_path).run())


def test_a_lost_history_is_refused(tmp_path: Path) -> None:
    stopped_at(tmp_path, 45)
    (tmp_path / "history.jsonl").write_text("")
    with pytest.raises(EarlError, match="holds 0 evaluations"):
        next(RunDirectory(tmp_path).run())
