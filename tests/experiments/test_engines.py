"""Sweeps on Ray: the same bytes as without it, also when a worker is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from earl.errors import EarlError
from earl.experiments.experiment import Experiment
from earl.experiments.imports import import_modules
from earl.experiments.sweeps.engines import LocalEngine, RayEngine
from earl.experiments.sweeps.sweep import sweep


def parent_of(pattern: str) -> int | None:
    """Return the process that started the one whose command line holds the pattern."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if pattern in (folder / "cmdline").read_text():
                return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, UnicodeDecodeError):  # it has ended
            continue
    return None


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place for a Ray of this machine's own; skips where there is none."""
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Ray keeps sockets there, whose paths must be short
    with TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as short:
        monkeypatch.setenv("RAY_TMPDIR", short)
        yield


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Ray are not ours
def test_ray_is_told_of_modules_of_ones_own(
    ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "from earl import METHODS\nfrom earl.methods.er import ER\n"
    module += "METHODS.register('er-for-ray')(type('Mine', (ER,), {}))\n"
    (tmp_path / "module_for_ray.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    import_modules(["module_for_ray"])
    run = Experiment(method="er-for-ray", dataset="shapes", stream="iid", settings={"limit": 12})
    with RayEngine() as engine:
        *_, last = sweep([run], tmp_path, engine=engine, imports=["module_for_ray"])
    assert [(run.state, run.message) for run in last] == [("finished", "")]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Ray are not ours
def test_ray_gives_the_same_bytes_and_survives_the_loss_of_a_worker(
    ray: None, tmp_path: Path
) -> None:
    runs = [
        Experiment(method=method, dataset="shapes", stream="gaussian", settings={"every": 5})
        for method in ("er", "earl")
    ]
    words = f"{tmp_path / 'ray'}\0--snapshot-seconds"
    killed = False
    with RayEngine() as engine:
        for states in sweep(runs, tmp_path / "ray", engine=engine, snapshot_seconds=0):
            if not killed and any(20 <= run.step < 160 for run in states):
                worker = parent_of(words)
                assert worker is not None
                killed = not os.kill(worker, signal.SIGKILL)
    assert killed and [run.state for run in states] == ["finished", "finished"]
    logs = [(run.path / "log.txt").read_text() for run in states]
    assert sum(log.count("$ earl run") for log in logs) >= 3
    for _ in sweep(runs, tmp_path / "local", engine=LocalEngine(threads=1)):
        pass
    for path in (experiment.path() / "history.jsonl" for experiment in runs):
        assert (tmp_path / "ray" / path).read_bytes() == (tmp_path / "local" / path).read_bytes()


def test_without_ray_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(EarlError, match=r'pip install "earl-learn\[ray\]"'):
        RayEngine()


@pytest.mark.parametrize(("workers", "cores", "share"), [(1, 8, 8), (2, 8, 4), (10**6, 8, 1)])
def test_runs_share_the_cores_unless_the_user_says_otherwise(
    workers: int, cores: int, share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[dict[str, str]] = []
    monkeypatch.setattr("earl.experiments.sweeps.engines.cores", lambda: cores)
    monkeypatch.setattr(subprocess, "Popen", lambda *words, env, **more: given.append(env))
    monkeypatch.delenv("OMP_NUM_THREADS")
    engine = LocalEngine(workers)
    engine.start(["run"], tmp_path / "log.txt")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    engine.start(["run"], tmp_path / "log.txt")
    assert [env["OMP_NUM_THREADS"] for env in given] == [str(share), "3"]
    assert engine.threads is None  # so that each run takes what its network is worth
    assert LocalEngine(workers, 3).threads == 3
