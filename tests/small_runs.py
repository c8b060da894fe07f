"""Small runs on synthetic images: to the end or a part of the way, and when two are the same."""

import torch

from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.experiments.runs.directory import RunDirectory
from earl.storage.snapshot import read_newest
from earl.storage.state import digest

SMALL = {"depth": 6, "width": 8, "per_class": 20, "every": 20}  # 80 samples for a memory of 20


def experiment(
    method: str = "earl", *, stream: str = "gaussian", seed: int = 1, **settings: Value
) -> Experiment:
    return Experiment(
        method=method, dataset="shapes", stream=stream, seed=seed, settings=SMALL | settings
    )


def finish(run: RunDirectory, **given: object) -> RunDirectory:
    for _ in run.run(**({"device": "cpu", "threads": 1} | given)):
        pass
    return run


def stop(run: RunDirectory, step: int, **given: object) -> RunDirectory:
    """Run up to a step and leave it there, saved; StopIteration if the stream ends before."""
    moments = run.run(**({"device": "cpu", "threads": 1} | given))
    next(moment for moment in moments if moment.step == step)
    moments.close()
    return run


def assert_same(run: RunDirectory, whole: RunDirectory) -> None:
    """The histories have the same bytes; the learners the same state and the same scores."""
    name = "history.jsonl"
    assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()
    one, other = read_newest(run.path / "snapshots"), read_newest(whole.path / "snapshots")
    assert one is not None and other is not None
    assert one.step == other.step and digest(one.state) == digest(other.state)
    images = whole.experiment.build().dataset.test.images[torch.arange(80)]
    assert torch.equal(run.learner().scores(images), whole.learner().scores(images))
    assert run.summary is not None and whole.summary is not None
    assert run.summary["metrics"] == whole.summary["metrics"]
