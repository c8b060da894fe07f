"""Run directories with chosen contents, in the format that runs write, for tests of what reads."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from earl.evaluation.history import Evaluation, lines_of, read_lines
from earl.evaluation.metrics import a_auc
from earl.experiments.experiment import Experiment
from earl.experiments.runs.environment import environment
from earl.experiments.runs.files import FORMAT
from earl.experiments.runs.seals import seal, summary_text
from earl.storage.files import remove
from earl.storage.snapshot import read_newest, write_snapshot

QUESTIONS = 1000  # of the exam in all
# Accuracies at the two evaluations of each seed: A_AUC is their mean, A_last the second
ER = {1: (0.3, 0.5), 2: (0.4, 0.6), 3: (0.5, 0.7)}
EARL = {1: (0.7, 0.6), 2: (0.7, 0.8), 3: (0.7, 0.7)}


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
        "sealed": True,
        "experiment": experiment.as_dict(),
        "settings": experiment.values(),
        "origins": experiment.origins.as_dict(),
        "environment": environment("cpu", 1) | (env or {}),
        "places": {},
        "data": {"source": "made up", "train_images": 160} | (data or {}),
    }
    (path / "experiment.json").write_text(json.dumps(record), encoding="utf-8")
    history: list[Evaluation] = []
    for accuracy in accuracies:
        history.append(evaluation(history[-1:], accuracy, extra or {}))
    if history:
        (path / "history.jsonl").write_text(lines_of(history), encoding="utf-8")
    if finished:
        summary = {
            "metrics": {"A_AUC": a_auc(history)},
            "samples": history[-1].step,
            "seconds": 2.5,
            "notes": [],
        }
        write_summary(path, summary)
    return path


def write_runs(
    folder: Path, method: str, accuracies: Mapping[int, Sequence[float]], **given: Any
) -> None:
    """Write runs of one method, whose accuracies are given by seed."""
    for seed, values in accuracies.items():
        write_run(folder, method, seed, values, **given)


def evaluation(
    before: Sequence[Evaluation], accuracy: float, extra: Mapping[str, float]
) -> Evaluation:
    """Return a record of two classes that are right equally often, after that before it."""
    step, online = (before[0].step, before[0].online_correct) if before else (0, 0)
    right = round(accuracy * QUESTIONS / 2)
    half = QUESTIONS // 2
    counts = {0: right, 1: right}, {0: half, 1: half}
    hits = min(max(round(accuracy * (step + 40)), online), online + 40)  # of all samples so far
    return Evaluation(step + 40, 0, *counts, hits, step + 40, dict(extra))


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary of a run with its seals, which earlier ones in it give way to."""
    record = json.loads((path / "experiment.json").read_text(encoding="utf-8"))
    result = {name: value for name, value in summary.items() if name not in ("seals", "sha256")}
    text = summary_text(result, record, seal(read_lines(path / "history.jsonl")))
    (path / "summary.json").write_text(text, encoding="utf-8")


def strip_seals(path: Path) -> None:
    """Make a run one of earlier versions, which had no seals."""
    record = json.loads((path / "experiment.json").read_text(encoding="utf-8"))
    del record["sealed"]
    (path / "experiment.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if (path / "summary.json").exists():
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        del summary["seals"], summary["sha256"]
        (path / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    for snapshot in sorted((path / "snapshots").glob("snap-*")):
        found = read_newest(snapshot.parent)
        assert found is not None and found.path == snapshot, "strip a run with one snapshot"
        about = {n: v for n, v in found.about.items() if n not in ("history", "run")}
        remove(snapshot)
        write_snapshot(snapshot.parent, found.step, found.state, about=about)
