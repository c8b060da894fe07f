"""How far a run is: lines in a log, and the note that it leaves for those who follow it."""

import os
from collections.abc import Generator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from earl.cli.app import app
from earl.cli.progress import lines
from earl.evaluation.history import Evaluation
from earl.evaluation.loop import Moment
from earl.experiments.experiment import Experiment
from earl.experiments.runs import progress_note as progressnote
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.progress_note import NOTE, noted, read_note, write_note
from earl.experiments.sweeps.engines import Job
from earl.experiments.sweeps.sweep import LOG, SweepRun, look_at
from earl.storage.files import lock_directory

EXPERIMENT = Experiment(
    method="er", dataset="shapes", stream="gaussian", settings={"limit": 40, "every": 40}
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / EXPERIMENT.path(), EXPERIMENT)


class Going:
    """A job that has not ended."""

    def poll(self) -> int | None:
        return None

    def stop(self) -> None: ...

    def wait(self) -> None: ...


def test_a_run_that_goes_on_notes_how_far_it_is(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progressnote, "NOTE_SECONDS", 0.0)
    moments = noted(run.run(device="cpu", threads=1), run.path)
    for step in (1, 2, 3):
        assert next(moments).step == step and read_note(run.path) == (step, 40)
    moments.close()
    assert read_note(run.path) is None and not (run.path / NOTE).exists()
    assert look_at(EXPERIMENT, run.path).step == 3  # it was saved there, before any evaluation
    for _ in noted(run.run(device="cpu", threads=1), run.path):
        pass
    assert run.summary is not None and not (run.path / NOTE).exists()


def test_the_command_notes_how_far_its_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    monkeypatch.setattr(progressnote, "NOTE_SECONDS", 0.0)
    monkeypatch.setattr(progressnote, "write_note", lambda folder, step, total: steps.append(step))
    words = [*EXPERIMENT.command(), "--out", str(tmp_path), "--threads", "1", "--device", "cpu"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert steps == list(range(1, 41))


def test_notes_are_written_about_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(progressnote.time, "monotonic", lambda: now)

    def moments() -> Generator[Moment]:
        for step in range(1, 10):
            yield Moment(step, 10)

    found = []
    for _ in noted(moments(), tmp_path):
        found.append((read_note(tmp_path) or (0, 0))[0])
        now += 0.375
    assert found == [1, 1, 1, 4, 4, 4, 7, 7, 7]


def test_a_sweep_sees_the_samples_between_two_evaluations(run: RunDirectory) -> None:
    followed = SweepRun(EXPERIMENT, run.path, [])
    moments = run.run(device="cpu", threads=1)
    next(moments)
    (run.path / LOG).write_text("$ earl run\n")
    job: Job = Going()
    followed.job = job
    write_note(run.path, 33, 40)
    followed.look()
    status = followed.status
    assert (status.state, status.step, status.total, status.accuracy) == ("running", 33, 40, None)
    write_note(run.path, 34, 40)
    followed.look()
    assert followed.status.step == 34
    moments.close()


def test_a_directory_in_use_tells_how_far_its_run_is(run: RunDirectory) -> None:
    with lock_directory(run.path):
        write_note(run.path, 7, 40)
        status = look_at(EXPERIMENT, run.path)
    assert (status.state, status.step, status.total) == ("in use", 7, 40)
    # whoever worked there was killed, and nothing of what it had noted is saved
    assert (look_at(EXPERIMENT, run.path).state, look_at(EXPERIMENT, run.path).step) == (
        "waiting",
        0,
    )


@pytest.mark.parametrize("text", ["", "249", "x of y\n", "1 of 2 of 3\n", "1 of 2" + " " * 200])
def test_what_is_no_note_tells_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text(text)
    assert read_note(tmp_path) is None


def test_a_note_goes_through_no_link_and_waits_for_nobody(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / NOTE).symlink_to(victim)
    write_note(tmp_path, 1, 2)
    assert victim.read_text() == "mine" and read_note(tmp_path) is None
    (tmp_path / NOTE).unlink()
    os.mkfifo(tmp_path / NOTE)
    write_note(tmp_path, 1, 2)  # would wait for a reader
    assert read_note(tmp_path) is None
    write_note(tmp_path / "nowhere", 1, 2)  # the run goes on without


def test_a_log_of_a_run_tells_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progressnote.time, "monotonic", lambda: now)
    text = StringIO()
    painter = lines("er", Console(file=text, width=20))
    next(painter)
    for step in range(51, 101):  # it goes on from sample 50
        now += 2.0
        evaluation = Evaluation(step, 0, {0: 5}, {0: 10}, 0, step) if step == 65 else None
        painter.send(Moment(step, 100, 0, evaluation))
    painter.close()
    assert text.getvalue().splitlines() == [
        "er: 51 of 100 samples, about 1:38 left",
        "er: 65 of 100 samples, 1 classes, accuracy 50.0 %, about 1:10 left",
        "er: 85 of 100 samples, 1 classes, accuracy 50.0 %, about 0:30 left",
        "er: 100 of 100 samples, 1 classes, accuracy 50.0 %",
    ]
