"""Runs in which some steps are not finite: they are undone, counted and, if too many, the end."""

import json
from pathlib import Path

import pytest
from torch import Tensor

from earl.errors import NoProgress
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.learning.learner import Learner
from earl.methods.er import ER
from earl.storage.state import digest
from small_runs import finish, stop

SETTINGS = {"per_class": 8, "every": 8}
plain = ER._update


def spoil(monkeypatch: pytest.MonkeyPatch, spoilt: range) -> None:
    """Have infinite gradients in some updates of ER."""

    def update(self: ER, X: Tensor, Y: Tensor) -> None:
        weight, bad = self.network.head.weight, self.work.updates in spoilt
        hook = weight.register_hook(lambda g: g * (float("inf") if bad else 1))
        plain(self, X, Y)
        hook.remove()

    monkeypatch.setattr(ER, "_update", update)


def opened(path: Path) -> RunDirectory:
    made = Experiment(method="er", dataset="shapes", stream="gaussian", settings=dict(SETTINGS))
    return RunDirectory(path, made)


def run(path: Path, stops: tuple[int, ...] = ()) -> RunDirectory:
    """Run to the end, stopped after each of these steps and gone on with."""
    for step in stops:
        stop(opened(path), step)
    return finish(opened(path))


def test_skipped_steps_are_in_history_and_summary_of_a_run_however_often_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, range(5, 12))
    whole, parts = run(tmp_path / "whole"), run(tmp_path / "parts", stops=(8, 9, 12))
    skipped = [e.extra["skipped_steps"] for e in whole.history]
    assert skipped[0] < 7 and skipped[-1] == 7
    assert whole.summary is not None and whole.summary["costs"]["skipped_steps"] == 7
    assert "7 steps led to inf or nan and were undone" in whole.summary["notes"]
    assert parts.history == whole.history
    assert digest(parts.learner().state_dict()) == digest(whole.learner().state_dict())


def test_a_run_without_such_steps_says_so(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.summary is not None and done.summary["costs"]["skipped_steps"] == 0
    assert not [note for note in done.summary["notes"] if "undone" in note]


def newest(path: Path) -> int:
    return max(int(folder.name[5:]) for folder in path.glob("snapshots/snap-*"))


def test_a_run_that_takes_no_step_any_more_ends_saved_and_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, range(8, 10**9))
    steps = []
    with pytest.raises(NoProgress, match=r"^at step \d+: \d+ updates in a row") as ended:
        for moment in opened(tmp_path).run(device="cpu", threads=1):
            steps.append(moment.step)
    assert str(ended.value).startswith(f"at step {steps[-1] + 1}: ")
    assert str(ended.value).endswith(f"; {tmp_path} is saved as of step {steps[-1]}")
    assert newest(tmp_path) == steps[-1] and opened(tmp_path).summary is None
    learner: Learner = opened(tmp_path).learner()
    assert learner.work.progress.skipped_steps >= 10
    monkeypatch.setattr(ER, "_update", plain)
    done = run(tmp_path)
    assert done.summary is not None and done.summary["costs"]["skipped_steps"] >= 10
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == done.summary["samples"]
