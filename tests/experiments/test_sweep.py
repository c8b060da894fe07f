"""Sweeps as they happen: real processes that finish, fail, are killed, and go on."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from children import ENV, Children
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.sweeps.engines import LocalEngine, LocalJob
from earl.experiments.sweeps.sweep import MAX_RESTARTS, Status, in_use, survey, sweep
from earl.experiments.sweeps.sweepfile import SweepFile
from processes import below
from small_runs import finish as run_to_its_end

BOTH: dict[str, object] = {"method": ["er", "earl"], "stream": ["disjoint", "gaussian"]}


def grid(settings: str, **fields: object) -> str:
    """Return a sweep file of one grid; unless other fields are given, of ER on one stream."""
    usual = {"method": "er", "dataset": "shapes", "stream": "disjoint", "seed": 1}
    lines = [f"{name} = {json.dumps(value)}" for name, value in (usual | fields).items()]
    return "\n".join(['title = "A test"', "[[grid]]", *lines, f"settings = {{{settings}}}"])


def shapes(method: str = "er", **given: object) -> Experiment:
    return Experiment(**({"method": method, "dataset": "shapes", "stream": "gaussian"} | given))  # type: ignore[arg-type]


def alone(experiment: Experiment, out: Path) -> bytes:
    """Carry out one run in this process, undisturbed; return its history."""
    return history(run_to_its_end(RunDirectory(out / experiment.path(), experiment)).path)


def history(path: Path) -> bytes:
    return (path / "history.jsonl").read_bytes()


def histories(out: Path) -> dict[str, bytes]:
    folders = (Path(folder) for folder, _, names in os.walk(out) if "history.jsonl" in names)
    return {str(p.relative_to(out)): (p / "history.jsonl").read_bytes() for p in folders}


def start(*words: str, cwd: Path, **given: object) -> "subprocess.Popen[str]":
    """Start `earl sweep` as a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "earl", "sweep", *words],
        cwd=cwd,
        env=ENV,
        text=True,
        start_new_session=True,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | given),  # type: ignore[call-overload]
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, said = process.communicate(timeout=600)
    return process.returncode, out, said


def wait_for(happened: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def evaluations(out: Path) -> int:
    return sum(text.count(b"\n") for text in histories(out).values())


def nobody_works_in(out: Path) -> bool:
    return not any(in_use(lock.parent) for lock in out.rglob("LOCK"))


def lives(out: Path) -> int:
    return sum(log.read_text().count("$ earl run") for log in out.rglob("log.txt"))


def test_a_sweep_finishes_all_runs_and_a_second_one_does_nothing(
    children: Children, tmp_path: Path
) -> None:
    (tmp_path / "grid.toml").write_text(grid("limit = 40", seed=[2, 3]))
    words = ["-m", "earl", "sweep", "grid.toml", "--workers", "2", "--threads", "1"]
    done = children.run(*words, cwd=tmp_path, env=ENV, forks=True)
    shown, said = done.stdout, done.stderr
    assert done.returncode == 0, said
    assert said.count("running: ") == said.count("finished: ") == 2
    assert "[2/2] finished: shapes,limit=40/" in said  # progress does not go to stdout
    (row,) = (line.split() for line in shown.splitlines() if "limit=40/disjoint/er " in line)
    assert row[-1] == "2"  # seeds
    out = tmp_path / "runs"
    experiment = shapes(stream="disjoint", seed=3, settings={"limit": 40})
    assert RunDirectory(out / experiment.path()).experiment == experiment
    assert history(out / experiment.path()) == alone(experiment, tmp_path / "alone")

    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    assert lives(out) == 2
    again = children.run(*words, cwd=tmp_path, env=ENV)
    assert (again.returncode, again.stdout) == (0, shown)
    assert again.stderr.strip() == "A test: 2 of 2 runs finished"
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before


def disturb(
    words: Sequence[str], out: Path, blows: Sequence[str], rng: random.Random, latest: int
) -> None:
    """Strike each time after 1 to `latest` evaluations more; then let the sweep finish."""
    for blow in blows:
        process = start(*words, cwd=out.parent)
        enough = evaluations(out) + rng.randint(1, latest)
        while evaluations(out) < enough and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.3))
        if blow == "term":
            process.terminate()
            code, _, said = finish(process)
            assert code == 143 and "Go on with the same command: earl sweep grid.toml" in said
        elif blow == "orphans":
            process.kill()
            finish(process)
            wait_for(partial(nobody_works_in, out))
        else:
            os.killpg(process.pid, signal.SIGKILL)
            finish(process)
    code, _, said = finish(start(*words, cwd=out.parent))
    assert code == 0, said


@pytest.mark.slow
def test_a_sweep_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """The whole group is killed; then the sweep alone, whose runs stop by themselves."""
    (tmp_path / "grid.toml").write_text(grid("every = 5", **BOTH | {"stream": "gaussian"}, seed=4))
    words = ["grid.toml", "--workers", "2", "--threads", "1", "--snapshot-seconds", "0"]
    disturb(words, tmp_path / "runs", ["group", "orphans"], random.Random(0), 20)
    assert lives(tmp_path / "runs") > 2
    for method in ("er", "earl"):
        experiment = shapes(method, seed=4, settings={"every": 5})
        found = history(tmp_path / "runs" / experiment.path())
        assert found == alone(experiment, tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_twelve_runs_killed_five_times_end_with_the_same_bytes(tmp_path: Path) -> None:
    text = grid("per_class = 12, every = 6", **BOTH, dataset="digits", seed=[1, 2, 3])
    (tmp_path / "grid.toml").write_text(text)
    words = ["grid.toml", "--workers", "2", "--threads", "1", "--snapshot-seconds", "0.2"]
    code, _, said = finish(start(*words, "--out", "whole", cwd=tmp_path))
    assert code == 0, said
    seed = random.SystemRandom().randrange(10**6)
    disturb(words, tmp_path / "runs", ["group"] * 5 + ["term"], random.Random(seed), 35)
    whole = histories(tmp_path / "whole")
    assert len(whole) == 12 and lives(tmp_path / "runs") > 12
    assert histories(tmp_path / "runs") == whole, f"with the kills of seed {seed}"


class Watched(LocalEngine):
    """A local engine whose processes can be reached."""

    def start(self, words: Sequence[str], log: Path) -> LocalJob:
        self.job = super().start(words, log)
        return self.job


def last(snapshots: Sequence[Sequence[Status]]) -> Sequence[Status]:
    return snapshots[-1]


def begin(children: Children, start: Sequence[str], *more: str, cwd: Path, err: Path) -> int:
    """Begin a sweep whose runs are forks; return its process."""
    words = [*start, "sweep", "grid.toml", "--workers", "2", "--threads", "1", *more]
    return children.start(*words, cwd=cwd, env=ENV, out=Path(os.devnull), err=err, forks=True)


def test_the_loss_of_a_process_is_survived(children: Children, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(grid("limit = 100, every = 5"))
    start, more = ("-m", "earl"), ("--snapshot-seconds", "0")
    sweeping = begin(children, start, *more, cwd=tmp_path, err=tmp_path / "err")
    out = tmp_path / "runs"
    wait_for(lambda: evaluations(out) >= 2)
    (worker,) = below(sweeping)
    os.kill(worker, signal.SIGKILL)
    assert children.wait() == 0 and lives(out) == 2
    experiment = shapes(stream="disjoint", settings={"limit": 100, "every": 5})
    assert history(out / experiment.path()) == alone(experiment, tmp_path / "alone")


def test_a_run_that_is_killed_before_it_comes_any_further_is_given_up(tmp_path: Path) -> None:
    engine = Watched(threads=1)
    for runs in sweep([shapes()], tmp_path, engine=engine):
        engine.job.process.kill()
        engine.job.process.wait()
        (run,) = runs
    assert run.state == "failed" and lives(tmp_path) == MAX_RESTARTS
    assert "killed 4 times in a row by SIGKILL" in run.message and "memory" in run.message


def test_a_run_that_fails_is_named_and_the_others_go_on(children: Children, tmp_path: Path) -> None:
    text = grid("", dataset=["cifar10", "shapes"], stream="gaussian")
    (tmp_path / "grid.toml").write_text(text)
    words = ["grid.toml", "--data-root", "nothing", "--threads", "1"]
    done = children.run("-m", "earl", "sweep", *words, cwd=tmp_path, env=ENV, forks=True)
    shown, said = done.stdout, done.stderr
    assert done.returncode == 1 and "Traceback" not in said
    assert "shapes/gaussian/er" in shown and "cifar10" not in shown
    assert "1 of 2 runs failed:\n  runs/cifar10/gaussian/er/seed-1\n" in said
    assert "[1/2] failed: cifar10/gaussian/er/seed-1: " in said
    assert said.count(str(tmp_path / "nothing")) == 2  # where the data were looked for

    runs = survey(SweepFile.open(tmp_path / "grid.toml").experiments, tmp_path / "runs")
    assert [run.state for run in runs] == ["waiting", "finished"]  # the next sweep tries again


# It leads a session that the terminal controls.
AT_A_TERMINAL = """
import os
os.setsid()
os.close(os.open(os.ttyname(2), os.O_RDWR))
from earl.__main__ import main
main()
"""


def test_ctrl_c_on_a_terminal_saves_every_run(children: Children, tmp_path: Path) -> None:
    """Typed into a pseudo-terminal, where it reaches the runs as well as the sweep."""
    text = grid("every = 5", **BOTH, dataset="digits", seed=[1, 2])
    (tmp_path / "grid.toml").write_text(text)
    typist, terminal = pty.openpty()
    begin(children, ("-c", AT_A_TERMINAL), cwd=tmp_path, err=Path(os.ttyname(terminal)))
    os.close(terminal)
    shown, typed = b"", False
    while True:
        try:
            shown += os.read(typist, 4096)
        except OSError:  # the other end is closed
            break
        if not typed and len(histories(tmp_path)) == 2 and all(histories(tmp_path).values()):
            typed = bool(os.write(typist, b"\x03"))
    os.close(typist)
    assert children.wait() == 130
    for words in (b"0 of 8 runs finished, 2 running, 6 waiting", b"seed 2", b"digits/disjoint/er"):
        assert words in shown
    assert b"every run is saved. Go on with the same command: earl sweep grid.toml" in shown
    assert len(list(tmp_path.rglob("snap-*"))) == 2
