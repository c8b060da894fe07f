"""The command line as a user meets it: real processes, what they print and how they end."""

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from children import ENV, Children
from earl import __version__ as version
from earl.evaluation.history import read_history
from earl.experiments.runs.directory import RunDirectory
from earl.storage.files import lock_directory

SHAPES = ["--dataset", "shapes", "--threads", "1"]


Earl = Callable[..., "subprocess.CompletedProcess[str]"]


def test_run_writes_a_directory_and_prints_the_metrics(earl: Earl, tmp_path: Path) -> None:
    words = ["run", "--method", "earl", *SHAPES, "--set", "k=3", "--set", "tau=0.5"]
    done = earl(*words)
    assert done.returncode == 0, done.stderr
    for word in ("A_AUC", "A_last", "AOA", "forgetting", "earl", "runs/shapes/gaussian"):
        assert word in done.stdout
    assert "160 of 160 samples" in done.stderr  # progress does not go to stdout
    path = tmp_path / "runs/shapes/gaussian/earl,k=3,tau=0.5/seed-1"
    assert len(read_history(path / "history.jsonl")) == 4
    again = earl(*words, "--json")
    result = json.loads(again.stdout)
    assert result["settings"] == {"k": 3, "tau": 0.5} and again.stderr == ""  # nothing to do
    assert result["metrics"] == RunDirectory(path).summary["metrics"]  # type: ignore[index]


def test_probes_are_recorded(earl: Earl, tmp_path: Path) -> None:
    done = earl("run", "--method", "er", *SHAPES, "--probe", "collapse", "--json")
    result = json.loads(done.stdout)
    last = read_history(tmp_path / result["directory"] / "history.jsonl")[-1]
    assert {"NC1", "NC2", "NC3"} <= set(last.extra) and last.extra["NC1"] > 0


def test_list_names_everything(earl: Earl) -> None:
    shown = earl("list").stdout
    for name in ("vanilla-etf", "er-memory-only", "digits", "disjoint", "A_AUC", "collapse"):
        assert name in shown
    assert set(json.loads(earl("list", "streams", "--json").stdout)) == {"streams"}


def test_the_version_is_told(earl: Earl) -> None:
    done = earl("--version")
    assert (done.stdout, done.returncode) == (f"earl {version}\n", 0)


def test_the_doctor_finds_all_well(earl: Earl) -> None:
    done = earl("doctor", "--json")
    findings = json.loads(done.stdout)
    assert all(finding["ok"] for finding in findings.values()), findings
    assert done.returncode == 0
    looked_at = {"versions", "device", "bfloat16", "disk", "geometry", "learning", "saving"}
    assert set(findings) == looked_at


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(
    number: int, code: int, children: Children, tmp_path: Path
) -> None:
    words = ["run", "--method", "earl", "--dataset", "digits", "--threads", "1", "--set", "every=5"]
    out, err = tmp_path / "out", tmp_path / "err"
    child = children.start("-m", "earl", *words, cwd=tmp_path, env=ENV, out=out, err=err)
    path = tmp_path / "runs/digits/gaussian/earl,every=5/seed-1"
    until = time.monotonic() + 60
    while len(read_history(path / "history.jsonl")) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child, number)
    ended, said = children.wait(), err.read_text(encoding="utf-8")
    assert ended == code, said
    assert f"earl resume {path.relative_to(tmp_path)}" in said
    (snapshot,) = (path / "snapshots").glob("snap-*")
    assert int(snapshot.name.removeprefix("snap-")) >= 15
    resumed = RunDirectory(path).run()
    assert next(resumed).step == int(snapshot.name.removeprefix("snap-")) + 1
    resumed.close()


def test_on_a_terminal_there_is_a_live_bar(children: Children, tmp_path: Path) -> None:
    """Run under a pseudo-terminal, as a person would see it."""
    main, end = pty.openpty()
    words, env = ["run", "--method", "er", *SHAPES], ENV | {"TERM": "xterm"}
    terminal, nowhere = Path(os.ttyname(end)), Path(os.devnull)
    children.start("-m", "earl", *words, cwd=tmp_path, env=env, out=nowhere, err=terminal)
    os.close(end)
    shown = b""
    with suppress(OSError):  # by then the other end is closed
        while True:
            shown += os.read(main, 4096)
    os.close(main)
    assert children.wait() == 0
    assert b"160/160" in shown and b"on 4 classes" in shown


def test_a_run_in_use_and_a_damaged_run_have_their_own_exit_codes(
    earl: Earl, tmp_path: Path
) -> None:
    words = ["run", "--method", "er", *SHAPES]
    assert earl(*words).returncode == 0
    path = tmp_path / "runs/shapes/gaussian/er/seed-1"
    (path / "summary.json").unlink()
    with lock_directory(path):
        busy = earl(*words)
    assert busy.returncode == 73 and "in use by another run" in busy.stderr
    for file in (path / "snapshots").glob("snap-*/state.safetensors"):
        file.write_bytes(b"")
    damaged = earl("resume", str(path))
    assert damaged.returncode == 65 and "no snapshot" in damaged.stderr


FEWER = """
import earl.cli.app, earl.cli.demo
whole = earl.cli.demo.Experiment
earl.cli.demo.Experiment = lambda settings, **names: whole(
    settings={**settings, "per_class": 25}, **names
)
earl.cli.app.main()
"""


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(("-m", "earl"), id="whole", marks=pytest.mark.slow),
        pytest.param(("-c", FEWER), id="on a fifth of the images"),
    ],
)
def test_the_demo_compares_draws_and_stays_in_its_place(
    python: tuple[str, str], children: Children, tmp_path: Path
) -> None:
    """One command, real images; both methods learn, at the same compute."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir(), work.mkdir()
    env = ENV | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    env.pop("MPLCONFIGDIR", None)
    done = children.run(*python, "demo", "--json", cwd=work, env=env)
    assert done.returncode == 0, done.stderr
    er, ours = json.loads(done.stdout)["runs"]
    assert (er["method"], ours["method"]) == ("er", "earl")
    assert min(run["metrics"]["A_AUC"] for run in (er, ours)) > 0.5  # by chance: 0.1 to 0.5
    assert abs(ours["costs"]["images"] / er["costs"]["images"] - 1) < 0.02  # the same compute
    assert (work / "earl-demo/accuracy.png").read_bytes()[:4] == b"\x89PNG"
    assert {p.name for p in work.iterdir()} == {"earl-demo"}
    assert {p.name for p in home.iterdir()} <= {"cache"}


def test_torchrun_does_not_repeat_what_it_cannot_divide(
    monkeypatch: pytest.MonkeyPatch, typed: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    for size, code in (("2", 1), ("1", 0)):
        monkeypatch.setenv("WORLD_SIZE", size)
        ended, _, said = typed("list")
        assert ended == code and ("start earl list alone" in said) == (size == "2")
