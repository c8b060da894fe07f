"""What earlier versions have written is read, and gives the same answers.

`formats` holds a small model and a small run of every format, made with `of_images` and
`experiment` of `earl.crashtest.small`, and the answers that they gave when they were saved.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import torch

from earl import EARLClassifier, RunDirectory
from earl.crashtest.small import stream

FORMATS = Path(__file__).parent / "formats"
ANSWERS = json.loads((FORMATS / "answers.json").read_text(encoding="utf-8"))


def copied(name: str, place: Path) -> Path:
    return Path(shutil.copytree(FORMATS / name, place / name))


def test_a_model_of_format_1_answers_as_it_did_and_goes_on(tmp_path: Path) -> None:
    clf, samples = EARLClassifier.load(copied("model-1", tmp_path)), stream(16)
    np.testing.assert_allclose(clf.predict_proba(samples.probes[:8]), ANSWERS["model-1"], atol=1e-5)
    assert clf.history.samples == 12
    clf.learn_one(samples.images[12], samples.labels[12])
    clf.save(tmp_path / "model-1")


def test_a_run_of_format_2_answers_as_it_did(tmp_path: Path) -> None:
    run = RunDirectory(copied("run-2", tmp_path))
    images = run.load().test.images[torch.arange(8)]
    scores = run.learner().scores(images).detach()
    torch.testing.assert_close(scores, torch.tensor(ANSWERS["run-2"]), atol=1e-5, rtol=0)
    assert run.summary is not None and len(run.history) == 2


def test_what_is_kept_of_each_format_is_small() -> None:
    for folder in FORMATS.iterdir():
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert size <= 200_000, folder.name
