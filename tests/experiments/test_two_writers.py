"""Two processes on one run where the lock lies: one stops, and the history is as if it were alone.

Each trial is a process of its own, in which `flock` does nothing. It forks the writers and lets
them go on by turns; the JSON line that it prints tells how each of them ended.
"""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from children import Children
from earl.errors import TakenOver
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from small_runs import finish

SETTINGS = {"per_class": 10, "every": 5}  # 40 samples
END = 41

TRIAL = """
import fcntl, json, os, sys
from pathlib import Path

fcntl.flock = lambda *_: None  # the lock that lies

import earl.experiments.runs.clock, earl.experiments.runs.saves
from earl.crashtest.points import Early
from earl.errors import SnapshotError, TakenOver
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory

folder, turns, experiment, seconds, unguarded = json.loads(sys.argv[1])
earl.experiments.runs.clock.SNAPSHOT_SHARE = float("inf")  # a snapshot whenever it is time for one
if all(len(names) == 1 for names, _ in turns):  # a snapshot is written within the turn
    earl.experiments.runs.saves.Background = Early
if unguarded:
    import earl.experiments.runs.historyfile as file

    def add(path, line, size):
        with open(path, "ab") as history:
            history.write(line)

    file.append = add

    def sealed(self):
        return file.seal(file.read_lines(self.path))

    file.HistoryFile.seal = sealed
    earl.experiments.runs.saves.newest_step = lambda _: -1


def write(orders, answers):
    run = RunDirectory(Path(folder), Experiment.from_dict(experiment))
    moments = run.run(device="cpu", threads=1, snapshot_seconds=seconds)
    how, step = "going on", 0
    for order in orders:
        try:
            while step < int(order):
                step = next(moments).step
        except StopIteration:
            how = "end"
        except TakenOver as error:
            how = f"taken over: {error}"
        except (OSError, SnapshotError) as error:  # within each other's snapshot
            how = f"failed: {error}"
        answers.write(how + "\\n")
        answers.flush()
        if how != "going on":
            return


class Writer:
    def __init__(self):
        (there, self.orders), (self.answers, here) = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.orders)
            code = 1
            try:
                write(os.fdopen(there), os.fdopen(here, "w"))
                code = 0
            finally:
                os._exit(code)
        os.close(there), os.close(here)
        self.orders, self.answers = os.fdopen(self.orders, "w"), os.fdopen(self.answers)
        self.how = "going on"

    def order(self, step):
        self.orders.write(f"{step}\\n")
        self.orders.flush()

    def answer(self):
        self.how = self.answers.readline().strip() or "died"

    def stop(self):
        self.orders.close()
        os.waitpid(self.process, 0)


writers = {}
for names, step in turns:
    for name in names:
        if name not in writers:
            writers[name] = Writer()
    going = [writers[name] for name in names if writers[name].how == "going on"]
    for writer in going:
        writer.order(step)
    for writer in going:
        writer.answer()
for writer in reversed(writers.values()):  # the later ones hold the pipes of the earlier, too
    writer.stop()
print(json.dumps({name: writer.how for name, writer in writers.items()}))
"""


def experiment() -> Experiment:
    return Experiment(method="er", dataset="shapes", stream="gaussian", settings=SETTINGS)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The history of a run that nobody disturbed."""
    run = finish(RunDirectory(tmp_path_factory.mktemp("alone") / "run", experiment()))
    return (run.path / "history.jsonl").read_bytes()


def trial(
    children: Children,
    folder: Path,
    turns: Sequence[tuple[str, int]],
    seconds: float,
    unguarded: bool = False,
) -> dict[str, str]:
    """Let writers go on by turns, each to a step; return how they ended."""
    told = json.dumps([str(folder), turns, experiment().as_dict(), seconds, unguarded])
    done = children.run("-c", TRIAL, told, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    how: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return how


TURNS = {
    "the second begins anew": [("A", 12), ("B", 3), ("A", END), ("B", END)],
    "the second is ahead": [("A", 7), ("B", 22), ("A", END), ("B", END)],
    "by turns": [(name, step) for step in range(1, END + 2, 2) for name in "AB"],
    "the first goes on": [("A", 12), ("B", 12), ("A", 23), ("B", 23), ("A", END), ("B", END)],
    "the second near the end": [("A", 38), ("B", 39), ("A", END), ("B", END)],
    "between two evaluations": [("A", 11), ("B", 12), ("A", 14), ("B", 13), ("A", END), ("B", END)],
    "three": [("A", 9), ("B", 9), ("C", 9), ("A", END), ("B", END), ("C", END)],
}


OF_BOTH_KINDS = ("the second is ahead", "the first goes on")


def cases() -> Iterator[Any]:
    """Yield all turns with a snapshot after every sample, and with none; some only at leisure."""
    for turns in TURNS:
        for seconds in (0.0, 1e9):
            leisure = "the second near the end", "between two evaluations"  # as are "by turns"
            usual = turns not in leisure if seconds == 0 else turns in OF_BOTH_KINDS
            yield pytest.param(turns, seconds, marks=() if usual else pytest.mark.slow)


@pytest.mark.parametrize(("turns", "seconds"), list(cases()))
def test_where_the_lock_lies_one_writer_stops_and_the_history_is_right(
    turns: str, seconds: float, children: Children, tmp_path: Path, alone: bytes
) -> None:
    how = trial(children, tmp_path / "run", TURNS[turns], seconds)
    ends = sorted(text.partition(":")[0] for text in how.values())
    assert ends == sorted(["end"] + ["taken over"] * (len(how) - 1)), how
    for text in how.values():
        if text.startswith("taken over"):
            assert f"another process works in {tmp_path / 'run'}, where locks do not" in text
            assert text.endswith(f"go on with: earl resume {tmp_path / 'run'}")
    assert (tmp_path / "run/history.jsonl").read_bytes() == alone
    (run,) = find_runs([tmp_path])
    assert run.finished and run.damage == ""


@pytest.mark.parametrize(
    ("old", "new"), [(b'"step":10', b'"step":11'), (b"\n", b"\n{}\n"), (b'"step":10', b"")], ids=str
)
def test_nothing_is_saved_or_added_once_the_history_has_been_changed(
    old: bytes, new: bytes, tmp_path: Path
) -> None:
    for step in (12, 15):  # the next to count on the file is a snapshot, or an evaluation
        run = RunDirectory(tmp_path / str(step), experiment())
        moments = run.run(device="cpu", threads=1)
        next(moment for moment in moments if moment.step == 12)
        file = run.path / "history.jsonl"
        changed = file.read_bytes().replace(old, new, 1)
        file.write_bytes(changed)
        with pytest.raises(TakenOver, match=r"history\.jsonl has "):
            if step == 15:
                next(moment for moment in moments if moment.step == 15)
            moments.close()
        assert not (run.path / "snapshots").exists()
        assert file.read_bytes().startswith(changed)


def test_without_the_guard_the_history_is_wrong(
    children: Children, tmp_path: Path, alone: bytes
) -> None:
    """The control: a wrong history, and nobody says a word."""
    turns = TURNS["the first goes on"]
    how = trial(children, tmp_path / "run", turns, 1e9, unguarded=True)
    assert "taken over" not in " ".join(how.values())
    assert (tmp_path / "run/history.jsonl").read_bytes() != alone


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_in_whatever_order_they_write_a_later_life_ends_right(
    seed: int, children: Children, tmp_path: Path, alone: bytes
) -> None:
    dice = random.Random(seed)
    at = {"A": 0, "B": 0}
    turns = []
    for _ in range(20):
        name = dice.choice("AB")
        at[name] += dice.randrange(1, 8)
        turns.append((name, min(at[name], END)))
    if seed % 2:  # at once
        turns = [("A", dice.randrange(1, 20)), ("AB", END)]
    how = trial(children, tmp_path / "run", turns, dice.choice([0.0, 1e9]))
    assert "died" not in how.values()
    finish(RunDirectory(tmp_path / "run", experiment()))
    assert (tmp_path / "run/history.jsonl").read_bytes() == alone
