"""A writer of snapshots may be killed at any time: what it leaves can be read and continued.

Run as a script with the name of a trial and a directory, this file is the process that is killed.
"""

import os
import random
import shutil
import signal
from functools import partial

import pytest

from earl.crashtest.disk import DEAD, die_at
from earl.crashtest.lives import in_child
from earl.crashtest.points import torn_write
from earl.errors import SnapshotError
from earl.storage import files as durable
from earl.storage import snapshot
from earl.storage.snapshot import read_newest, write_snapshot
from snapshots import be_trial, example, names, run_trial, same, tree


def all_whole(root):
    """Load every snapshot there is: none may be half written or half removed."""
    return all(snapshot._load(path) for path in root.glob("snap-*"))


def live(root, done):
    """Write snapshots for ever, from where the last life ended; tell of each through a pipe."""
    found = read_newest(root)
    step = found.step + 1 if found else 0
    while True:
        write_snapshot(root, step, example(step, 3000), about={"step": step})
        os.write(done, b".")
        step += 1


def kill_at_random(root, kills):
    """Kill a writing child again and again; what it left must load each time."""
    rng, torn, steps = random.Random(0), 0, [-1]
    for _ in range(kills):
        told, done = os.pipe()
        if not (child := os.fork()):
            live(root, done)
        os.close(done)
        written = rng.randrange(3)
        for _ in range(written):
            assert os.read(told, 1) == b"."
        os.kill(child, signal.SIGKILL)  # while it reads, or writes the next one
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        os.close(told)
        if not root.is_dir():
            assert not written
            continue
        assert all(name.startswith(("snap-", ".tmp-snap-")) for name in names(root)), names(root)
        torn += any(name.startswith(".tmp-") for name in names(root))
        found = read_newest(root)
        assert (found.step if found else -1) >= steps[-1] + written
        if found:
            assert found.skipped == ()
            assert all_whole(root)
            assert same(example(found.step, 3000), found.state)
            steps.append(found.step)
    return {"kills": kills, "torn": torn, "steps": steps}


def die_at_each_operation(root, start, step):
    """Write one step from a prepared directory, dying at each operation; return what was found."""

    def write(point):
        operations = die_at(point)
        write_snapshot(root / "now" / "here", step, example(step), about={})
        return operations()

    def prepared():
        shutil.rmtree(root / "now", ignore_errors=True)
        shutil.copytree(start, root / "now")

    prepared()
    total = in_child(lambda: write(None))
    finished, damaged, found = tree(root / "now"), 0, []
    for point in ((n, when) for n in range(1, total + 1) for when in ("before", "after")):
        prepared()
        assert in_child(lambda point=point: write(point)) == DEAD
        try:
            newest = read_newest(root / "now" / "here")
        except SnapshotError:
            damaged += 1
            continue
        damaged += bool(newest and newest.skipped)
        assert all_whole(root / "now" / "here")
        assert newest is None or same(example(newest.step), newest.state)
        found.append(newest.step if newest else None)
        write_snapshot(root / "now" / "here", step, example(step), about={})
        if not (newest and newest.skipped):
            assert tree(root / "now") == finished
    return {"points": 2 * total, "damaged": damaged, "found": found}


def kill_at_every_operation(root):
    """Kill the first write of all, one that also removes, and the first again, sabotaged."""
    os.fsync = lambda fd: None  # still counted below; nobody cuts the power
    (root / "empty").mkdir(parents=True)
    for step in (1, 2):
        write_snapshot(root / "full" / "here", step, example(step), about={})
    left = shutil.copytree(
        root / "full" / "here" / "snap-000000000002", root / "full" / "here" / ".tmp-x"
    )
    (left / "manifest.json").unlink()
    results = {
        "first": die_at_each_operation(root, root / "empty", 0),
        "later": die_at_each_operation(root, root / "full", 3),
    }
    durable.write_dir_atomically = torn_write
    return results | {"torn": die_at_each_operation(root, root / "empty", 0)}


TRIALS = {
    "some_kills": partial(kill_at_random, kills=10),
    "many_kills": partial(kill_at_random, kills=100),
    "kill_at_every_operation": kill_at_every_operation,
}


@pytest.mark.parametrize(
    "trial", ["some_kills", pytest.param("many_kills", marks=pytest.mark.slow)]
)
def test_a_writer_may_be_killed_at_any_time(trial, tmp_path):
    result = run_trial(__file__, trial, tmp_path)
    print(result)
    assert result["steps"] == sorted(result["steps"])
    assert result["steps"][-1] > 0  # it went on from what was left


def test_a_writer_may_be_killed_before_and_after_every_operation(tmp_path):
    result = run_trial(__file__, "kill_at_every_operation", tmp_path)
    for way, outcomes in (("first", {None, 0}), ("later", {2, 3})):
        print(way, "write:", result[way]["points"], "points")
        assert result[way]["damaged"] == 0
        assert len(result[way]["found"]) == result[way]["points"] >= 20
        assert set(result[way]["found"]) == outcomes
    assert result["torn"]["damaged"] > 0  # the control: these kills do tear what is not careful


if __name__ == "__main__":
    be_trial(TRIALS)
