"""Runs as files: stopped, damaged, asked for twice – and the same result each time.

Kills and two processes on one run: `kills-run` and `locks` of earl.crashtest.
"""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from earl.errors import EarlError, SnapshotError
from earl.evaluation.history import read_history
from earl.experiments.runs import saves
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.files import FORMAT
from earl.storage.snapshot import read_newest
from small_runs import assert_same, experiment, finish, stop
from snapshots import flip_bit


def test_a_run_leaves_a_readable_record(whole: RunDirectory) -> None:
    assert {p.name for p in whole.path.iterdir()} == {
        "LOCK",
        "experiment.json",
        "history.jsonl",
        "snapshots",
        "summary.json",
    }
    record = json.loads((whole.path / "experiment.json").read_text())
    assert record["experiment"]["method"] == "earl" and record["settings"]["k"] == 15
    assert record["format"] == FORMAT
    assert record["environment"]["threads"] == 1
    history = whole.history
    assert [e.step for e in history] == [20, 40, 60, 80]
    assert history[-1].online_total == 80 and len(history[-1].total) == 4
    assert whole.summary is not None
    assert set(whole.summary["metrics"]) == {"A_AUC", "A_last", "AOA", "forgetting"}


def test_a_run_that_has_ended_is_not_run_again(whole: RunDirectory) -> None:
    before = {p: p.stat().st_mtime_ns for p in whole.path.rglob("*") if p.is_file()}
    assert list(RunDirectory(whole.path, experiment()).run()) == []
    assert {p: p.stat().st_mtime_ns for p in before} == before


@pytest.mark.parametrize(
    "stops",
    [
        (1,),
        (7, 8, 9, 79, 80),
        *(pytest.param(s, marks=pytest.mark.slow) for s in [(20,), (21, 49)]),
    ],
)
def test_leaving_the_loop_saves_and_the_run_goes_on_exactly(
    stops: tuple[int, ...], whole: RunDirectory, tmp_path: Path
) -> None:
    for step in stops:
        stop(RunDirectory(tmp_path, experiment()), step)
        newest = read_newest(tmp_path / "snapshots")
        assert newest is not None and newest.step == step
    assert_same(finish(RunDirectory(tmp_path)), whole)


def test_snapshots_in_between_change_nothing(whole: RunDirectory, tmp_path: Path) -> None:
    assert_same(finish(RunDirectory(tmp_path, experiment()), snapshot_seconds=0.0), whole)


def test_learning_goes_on_while_a_snapshot_is_written(
    whole: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, write, steps = Event(), saves.write_snapshot, []

    def held(root: Path, step: int, *rest: Any, **named: Any) -> Path:
        steps.append(step)
        assert gate.wait(60)
        return write(root, step, *rest, **named)

    monkeypatch.setattr(saves, "write_snapshot", held)
    run = RunDirectory(tmp_path, experiment())
    for moment in run.run(device="cpu", threads=1, snapshot_seconds=0.0):
        if moment.step == 45:  # two evaluations are in the history by now
            assert steps == [1] and not (tmp_path / "snapshots").exists()
            gate.set()
    assert len(steps) > 1
    assert_same(run, whole)


def stopped_at(path: Path, step: int) -> None:
    stop(RunDirectory(path, experiment()), step, snapshot_seconds=0.0)


def test_a_torn_line_and_lines_after_the_snapshot_are_repaired(
    whole: RunDirectory, tmp_path: Path
) -> None:
    stopped_at(tmp_path, 45)
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write((whole.path / "history.jsonl").read_text().splitlines()[2] + "\n" + '{"step":')
    assert len(read_history(tmp_path / "history.jsonl")) == 3
    assert_same(finish(RunDirectory(tmp_path)), whole)


def test_a_damaged_snapshot_is_skipped_with_a_note(whole: RunDirectory, tmp_path: Path) -> None:
    stopped_at(tmp_path, 45)
    newest = max((tmp_path / "snapshots").glob("snap-*"))
    flip_bit(newest / "state.safetensors", -100)
    run = finish(RunDirectory(tmp_path))
    assert any("damaged" in note for note in run.notes)
    assert_same(run, whole)


def test_without_a_whole_snapshot_the_run_is_refused_not_restarted(tmp_path: Path) -> None:
    stopped_at(tmp_path, 25)
    for file in (tmp_path / "snapshots").glob("snap-*/state.safetensors"):
        file.write_bytes(b"nothing")
    with pytest.raises(SnapshotError, match="no snapshot"):
        next(RunDirectory(tmp_path).run())


def test_a_lost_history_is_refused(tmp_path: Path) -> None:
    stopped_at(tmp_path, 45)
    (tmp_path / "history.jsonl").write_text("")
    with pytest.raises(EarlError, match="holds 0 evaluations"):
        next(RunDirectory(tmp_path).run())
