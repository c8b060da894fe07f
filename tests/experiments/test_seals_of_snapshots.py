"""Seals of snapshots: a run takes no snapshot of another run."""

import json
import re
import shutil
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from test_seals import learner_of

from earl.errors import DamagedRun, EarlError, SnapshotError
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from earl.experiments.runs.saves import Saves
from earl.experiments.runs.seals import check_snapshot, identity, own_seal
from earl.storage.files import remove
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import State
from sealed_runs import experiment, stopped

# ---- snapshots of other runs


ONLY: dict[str, Value] = {"rotate": 90, "depth": 10, "frozen": 1}  # that not every number suits


def changed(name: str, value: Value, kind: Any) -> Iterator[Value]:
    """Yield other values that a setting can have."""
    if get_origin(kind) is Literal:
        yield from (other for other in get_args(kind) if other != value)
    elif kind is bool:
        yield not value
    elif kind is str:
        yield f"{value}x"
    elif name in ONLY:
        yield ONLY[name]
    elif name in ("per_class", "limit"):
        yield 2
    else:
        yield value + 1 if kind is int else value / 2 or 0.5  # type: ignore[operator]


def others(of: Experiment) -> Iterator[tuple[str, Experiment]]:
    """Yield experiments that differ in one thing: each setting, the seed, names and probes."""
    for name, option in of.options()._options.items():
        if name in of.values():
            for value in changed(name, of.values()[name], option.kind):
                yield name, replace(of, settings={**of.settings, name: value})
    yield "seed", replace(of, seed=2)
    yield "stream", replace(of, stream="iid")
    yield "dataset", replace(of, dataset="digits")
    yield "probes", replace(of, probes=("bias",))
    yield "match", replace(of, match="flops", to="er-mir")


def record_of(of: Experiment) -> dict[str, Any]:
    """Return what experiment.json says of an experiment, without what follows from its data."""
    return {"sealed": True, "experiment": of.as_dict(), "settings": of.values()}


def taken(run: RunDirectory, step: int, about: Mapping[str, Any], state: State) -> str:
    """Give a run another one's snapshot; return what it says, or nothing if it goes on."""
    kept = run.path / "kept"
    (run.path / "snapshots").rename(kept)
    try:
        write_snapshot(run.path / "snapshots", step, state, about=about)
        Saves(run.path, json.loads((run.path / "experiment.json").read_text()), []).go_on(
            learner_of(run.path)
        )
    except SnapshotError as error:
        return str(error)
    finally:
        remove(run.path / "snapshots")
        kept.rename(run.path / "snapshots")
    return ""


def foreign(host: Path, only: Container[str] = ()) -> list[str]:
    """Return in what snapshots differed that a run has taken for its own, of all or of some."""
    run = RunDirectory(host)
    found, passed, count = read_newest(host / "snapshots"), [], 0
    assert found is not None
    for name, other in others(run.experiment):
        if only and name not in only:
            continue
        count += 1
        about = {**found.about, "run": identity(record_of(other))}
        said = taken(run, found.step, about, found.state)
        if not said:
            passed.append(name)
        else:
            assert re.search(rf"is a snapshot of another run \({name} = ", said), said
    print(f"foreign={count} taken={len(passed)}")
    return passed


def test_no_snapshot_is_taken_that_differs_in_any_setting(runs: Path, tmp_path: Path) -> None:
    host = shutil.copytree(runs / "seed-3", tmp_path / "run")
    assert foreign(host) == []
    found = read_newest(host / "snapshots")
    assert found is not None and taken(RunDirectory(host), 9, found.about, found.state) == ""


def test_unchecked_snapshots_of_other_settings_are_taken(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setattr("earl.experiments.runs.saves.check_snapshot", lambda *_: "")
    host = shutil.copytree(runs / "seed-3", tmp_path / "run")
    some = ("lr", "batch_size", "seed")
    assert set(foreign(host, some)) == {*some}


@pytest.mark.parametrize("method", METHODS.names())
def test_no_setting_of_any_method_can_differ_unseen(method: str) -> None:
    here, count = record_of(experiment(method)), 0
    for name, other in others(experiment(method)):
        count += 1
        told = r"\w+" if name == "frozen" else name  # another recipe, and so more than one setting
        with pytest.raises(SnapshotError, match=rf"another run \({told} = "):
            check_snapshot(Path("snap"), {**STOOD, "run": identity(record_of(other))}, here)
    assert count >= len(here["settings"])


def test_no_snapshot_of_any_method_is_taken_by_another() -> None:
    records = {name: record_of(experiment(name)) for name in METHODS.names()}
    for one, record in records.items():
        for other, foreign_record in records.items():
            about = {**STOOD, "run": identity(foreign_record)}
            if one == other:
                assert check_snapshot(Path("snap"), about, record) == ""
                continue
            with pytest.raises(SnapshotError, match=re.escape(f"method = '{other}' there")):
                check_snapshot(Path("snap"), about, record)


@pytest.mark.parametrize("of", [None, 3, [], {"experiment": 3}, {}, {"experiment": {}}], ids=str)
def test_a_snapshot_that_does_not_say_which_run_it_is_of_is_refused(of: Any) -> None:
    about = {**STOOD, "run": of}
    with pytest.raises(SnapshotError, match=r"another run \((it does not say|dataset = None)"):
        check_snapshot(Path("snap"), about, record_of(experiment()))


@pytest.mark.parametrize("change", [{}, {"evaluations": "3"}, {"seconds": None}], ids=str)
def test_a_snapshot_that_does_not_say_where_its_run_stood_is_refused(
    change: dict[str, Any],
) -> None:
    about = {**STOOD, **change} if change else {}
    with pytest.raises(SnapshotError, match="does not tell where its run stood"):
        check_snapshot(Path("snap"), about, {"experiment": {}, "settings": {}})


@pytest.mark.parametrize("seals", [[], {}, 3, {"run": ""}, "run", None], ids=str)
def test_seals_of_another_shape_are_refused_even_under_a_right_sum(
    seals: Any, runs: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(runs / "seed-1", tmp_path / "run")
    summary = json.loads((path / "summary.json").read_text()) | {"seals": seals}
    del summary["sha256"]
    start = json.dumps(summary, indent=2)[:-2]
    (path / "summary.json").write_text(start + own_seal(start))
    with pytest.raises(DamagedRun, match=r"summary\.json is not "):
        assert RunDirectory(path).summary


STOOD = {"evaluations": 0, "online_correct": 0, "seconds": 0.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "seed": ("seed = 2 there, 1 here", {"seed": 2}),
    "lr": ("lr = 0.01 there, ", {"lr": 0.01}),
    "batch_size": ("batch_size = 8 there, 16 here", {"batch_size": 8}),
    "method": ("method = 'der++' there, 'er' here", {"method": "der++"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_snapshot_of_another_run_is_refused_and_nothing_changes(
    case: str, tmp_path: Path
) -> None:
    found, given = CASES[case]
    message = rf"snap-0+6 is a snapshot of another run \({re.escape(found)}"
    run = RunDirectory(tmp_path / "run", experiment())
    stopped(run.path, experiment(), 4)
    other = stopped(tmp_path / "other", experiment(**given), 6)
    remove(run.path / "snapshots")
    shutil.copytree(other.path / "snapshots", run.path / "snapshots")
    before = {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()}
    for use in (lambda: next(RunDirectory(run.path).run()), RunDirectory(run.path).learner):
        with pytest.raises(SnapshotError, match=message):
            use()
    assert {p: p.read_bytes() for p in run.path.rglob("*") if p.is_file()} == before
    assert re.search(message, find_runs([run.path])[0].damage)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS.names())
def test_real_runs_of_every_setting_leave_snapshots_that_others_refuse(
    method: str, tmp_path: Path
) -> None:
    host = stopped(tmp_path / "host", experiment(method), 4)
    refused = impossible = 0
    for number, (_, other) in enumerate(others(host.experiment)):
        path = tmp_path / str(number)
        try:
            run = stopped(path, other, 3)
        except (EarlError, StopIteration):  # a value that the setting cannot have
            impossible += 1
            continue
        found = read_newest(run.path / "snapshots")
        assert found is not None
        assert taken(host, found.step, found.about, found.state)
        refused += 1
    print(f"method={method} refused={refused} taken=0 impossible={impossible}")
    assert refused > 2 * impossible


def test_a_stream_file_may_move_and_a_finished_run_must_be_that_of_its_record(
    runs: Path, tmp_path: Path
) -> None:
    record = record_of(experiment())
    at = [record["experiment"] | {"stream": p, "stream_sha256": "5" * 64} for p in ("file:a", "b")]
    assert identity(record | {"experiment": at[0]}) == identity(record | {"experiment": at[1]})
    path = shutil.copytree(runs / "seed-1", tmp_path / "run")
    text = (path / "experiment.json").read_text()
    (path / "experiment.json").write_text(text.replace('"seed": 1', '"seed": 7'))
    with pytest.raises(DamagedRun, match="is of another run than the"):
        assert RunDirectory(path).summary
    assert "is of another run" in find_runs([path])[0].damage
