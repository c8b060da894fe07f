"""Run directories with chosen contents, in the format that runs write, for tests of what reads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from earl.environment import environment
from earl.experiment import Experiment
from earl.history import Evaluation, lines_of
from earl.metrics import a_auc
from earl.records import FORMAT

QUESTIONS = 1000  # of the exam in all


def write_run(
    folder: Path,
    method: str,
    seed: int,
    accuracies: Sequence[float],
    *,
    dataset: str = "shapes",
    stream: str = "disjoint",
    finished: bool = True,
    settings: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    extra: Mapping[str, float] | None = None,
    probes: tuple[str, ...] = (),
    **match: str,
) -> Path:
    """Write a run whose evaluations, one every 40 samples, had these accuracies."""
    experiment = Experiment(
        method=method,
        dataset=dataset,
        stream=stream,
        seed=seed,
        settings=settings or {},
        probes=probes,
        **match,
    )
    path = folder / experiment.path()
    path.mkdir(parents=True)
    record = {
        "format": FORMAT,
        "experiment": experiment.as_dict(),
        "settings": experiment.values(),
        "environment": environment("cpu", 1) | (env or {}),
        "places": {},
        "data": {"source": "made up", "train_images": 160} | (data or {}),
    }
    (path / "experiment.json").write_text(json.dumps(record), encoding="utf-8")
    history = [
        evaluation(40 * number, accuracy, extra or {})
        for number, accuracy in enumerate(accuracies, start=1)
    ]
    if history:
        (path / "history.jsonl").write_text(lines_of(history), encoding="utf-8")
    if finished:
        summary = {
            "metrics": {"A_AUC": a_auc(history)},
            "samples": history[-1].step,
            "seconds": 2.5,
            "notes": [],
        }
        (path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return path


def evaluation(step: int, accuracy: float, extra: Mapping[str, float]) -> Evaluation:
    """Return a record of two classes that are right equally often."""
    right = round(accuracy * QUESTIONS / 2)
    half = QUESTIONS // 2
    counts = {0: right, 1: right}, {0: half, 1: half}
    return Evaluation(step, 0, *counts, round(accuracy * step), step, dict(extra))
