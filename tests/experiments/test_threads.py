"""Threads: few for small networks, the user's number where there is one, asleep while idle."""

import json
import os
from pathlib import Path

import pytest
import torch

from earl.errors import InvalidSetting
from earl.experiments import machine as threads_module
from earl.experiments.experiment import Experiment
from earl.experiments.learners import threads_worth
from earl.experiments.machine import (
    FLOPS_OF_A_THREAD,
    check_threads,
    thread_count,
    threads_for,
    usable_device,
)
from earl.experiments.runs.directory import RunDirectory
from fresh import python
from small_runs import stop


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)


@pytest.mark.parametrize(("times", "threads"), [(0.07, 1), (1.9, 1), (3.4, 3), (53, 8), (1e9, 8)])
def test_a_thread_is_worth_its_flops(times: float, threads: int, eight_cores: None) -> None:
    assert threads_for(times * FLOPS_OF_A_THREAD) == threads


@pytest.mark.parametrize(
    ("dataset", "settings", "shape", "threads"),
    [
        ("digits", {}, (1, 16, 16), 1),
        ("shapes", {}, (3, 8, 8), 1),
        ("cifar10", {"width": 16}, (3, 32, 32), 3),
        ("cifar10", {}, (3, 32, 32), 8),
    ],
)
def test_small_networks_get_one_thread_and_large_ones_all_cores(
    dataset: str,
    settings: dict[str, int],
    shape: tuple[int, int, int],
    threads: int,
    eight_cores: None,
) -> None:
    experiment = Experiment(method="er", dataset=dataset, stream="disjoint", settings=settings)
    assert threads_worth(experiment, shape) == threads


def test_fewer_cores_and_fewer_threads_of_torch_are_respected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)  # as OMP_NUM_THREADS=4 does
    monkeypatch.setattr(threads_module, "cores", lambda: 16)
    assert threads_for(1e15) == 4
    monkeypatch.setattr(threads_module, "cores", lambda: 2)
    assert threads_for(1e15) == 2


EXPERIMENT = Experiment(method="er", dataset="shapes", stream="disjoint")


def threads_of(path: Path) -> int:
    found: int = json.loads((path / "experiment.json").read_text())["environment"]["threads"]
    return found


def test_a_small_run_takes_one_thread_and_writes_it_down(tmp_path: Path) -> None:
    with thread_count(2):
        next(moments := RunDirectory(tmp_path, EXPERIMENT).run(device="cpu"))
        assert torch.get_num_threads() == 1
        moments.close()
        assert torch.get_num_threads() == 2
    assert threads_of(tmp_path) == 1


def test_the_number_that_was_asked_for_wins_and_is_kept(tmp_path: Path) -> None:
    for threads in (2, 1):  # the second asks for another one, and goes on with the first one's
        next(moments := RunDirectory(tmp_path, EXPERIMENT).run(device="cpu", threads=threads))
        assert torch.get_num_threads() == 2
        moments.close()
        assert torch.get_num_threads() == 1  # given back
    assert threads_of(tmp_path) == 2


@pytest.mark.parametrize("threads", [-1, 0, 513, 100_000])
def test_a_number_that_would_end_the_process_is_refused(threads: int) -> None:
    with pytest.raises(InvalidSetting, match=f"threads = {threads} must be from 1 to 512"):
        check_threads(threads)
    before = torch.get_num_threads()
    with pytest.raises(InvalidSetting), thread_count(threads):
        pass
    assert torch.get_num_threads() == before


POLICY = """
import os, sys
from earl.cli import app as cli
cli.sys.exit = lambda code: None
sys.argv = ["earl", "--version"]
assert "torch" not in sys.modules
cli.main()
assert "torch" not in sys.modules
print(os.environ["OMP_WAIT_POLICY"], os.environ["KMP_BLOCKTIME"])
"""


@pytest.mark.parametrize(
    ("given", "found"), [({}, "passive 0"), ({"OMP_WAIT_POLICY": "active"}, "active 0")]
)
def test_idle_threads_sleep_before_torch_is_there_unless_the_user_wants_otherwise(
    given: dict[str, str], found: str
) -> None:
    env = {n: v for n, v in os.environ.items() if n not in ("OMP_WAIT_POLICY", "KMP_BLOCKTIME")}
    assert python(POLICY, env=env | given).splitlines()[-1] == found


@pytest.mark.parametrize("name", ["cuda:99", "foo", "", "meta"])
def test_a_device_that_cannot_calculate_is_refused(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"device = '{name}' cannot be used: the best here is"):
        usable_device(name)
    assert usable_device("cpu") == "cpu" and usable_device("auto") in ("cpu", "cuda")


def test_a_run_that_began_on_a_device_that_is_gone_says_so(tmp_path: Path) -> None:
    stop(RunDirectory(tmp_path, EXPERIMENT), 1)
    record = json.loads((tmp_path / "experiment.json").read_text())
    record["environment"]["device"] = "cuda:99"
    (tmp_path / "experiment.json").write_text(json.dumps(record))
    with pytest.raises(InvalidSetting, match="device = 'cuda:99' cannot be used"):
        next(RunDirectory(tmp_path).run())
