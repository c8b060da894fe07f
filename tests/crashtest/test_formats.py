"""What earlier versions have written is read, and gives the same answers.

`formats` holds a small model and a small run of every format, made with `of_images` and
`experiment` of `earl.crashtest.small`, and the answers that they gave when they were saved. The
runs of format 1 were made by the last version that wrote it (commit 53ebec6), to the end and to
step 12; nothing was changed but that the folders of that machine were taken out of their records.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from earl import EARLClassifier, RunDirectory
from earl.cli.app import app
from earl.cli.end import outcome
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


@pytest.mark.parametrize("name", ["run-1", "run-2"])
def test_a_run_of_each_format_answers_as_it_did(name: str, tmp_path: Path) -> None:
    run = RunDirectory(copied(name, tmp_path))
    images = run.load().test.images[torch.arange(8)]
    scores = run.learner().scores(images).detach()
    torch.testing.assert_close(scores, torch.tensor(ANSWERS[name]), atol=1e-5, rtol=0)
    assert run.summary is not None and len(run.history) == 2


def test_a_run_of_format_1_stands_in_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied("run-1", tmp_path)
    assert outcome(app, ["table", str(folder), "--metric", "A_AUC"]) == 0
    out, said = capsys.readouterr()
    assert "| earl, d=7, hidden=8 | 27.50 (1) |" in out and said == ""


def test_a_stopped_run_of_format_1_goes_on_to_the_same_end(tmp_path: Path) -> None:
    ended, run = (RunDirectory(copied(name, tmp_path)) for name in ("run-1", "run-1-stopped"))
    assert [moment.step for moment in run.run()] == [13, 14, 15, 16]
    assert run.summary is not None and ended.summary is not None
    assert run.summary["metrics"] == pytest.approx(ended.summary["metrics"])
    images = run.load().test.images[torch.arange(8)]
    scores = run.learner().scores(images).detach()
    torch.testing.assert_close(scores, torch.tensor(ANSWERS["run-1"]), atol=1e-5, rtol=0)


def test_what_is_kept_of_each_format_is_small() -> None:
    for folder in FORMATS.iterdir():
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        assert size <= 200_000, folder.name
