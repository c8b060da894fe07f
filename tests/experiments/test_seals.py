"""Seals: no damaged number is printed, no snapshot of another run is taken, no two runs mix.

The harnesses count what passes in silence, and each has a control: with the protection taken out it
must count some.
"""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from children import Children
from earl.errors import DamagedRun, EarlError, SnapshotError
from earl.evaluation.history import read_lines
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.recipes import Value
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from earl.experiments.runs.saves import Saves
from earl.experiments.runs.seals import check_snapshot, identity, own_seal
from earl.experiments.sweeps.sweep import survey
from earl.report.export.tables import export_csv
from earl.report.tables import make_table
from earl.report.tables.formats import FORMATS
from earl.storage.files import remove
from earl.storage.snapshot import read_newest, write_snapshot
from earl.storage.state import State
from run_folders import strip_seals

SMALL: dict[str, Value] = {"per_class": 3, "every": 2}  # 12 samples
FILES = ("history.jsonl", "summary.json")
MUTATIONS = 220


def experiment(method: str = "er", seed: int = 1, **settings: Value) -> Experiment:
    return Experiment(
        method=method, dataset="shapes", stream="gaussian", seed=seed, settings=SMALL | settings
    )


def stopped(path: Path, of: Experiment, step: int) -> RunDirectory:
    """Return a run that was stopped, and saved, after a few samples."""
    run = RunDirectory(path, of)
    moments = run.run(device="cpu", threads=1)
    next(moment for moment in moments if moment.step == step)
    moments.close()
    return run


# ---- damage


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that have ended and one that was stopped after 9 of 12 samples."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        run = RunDirectory(folder / f"seed-{seed}", experiment(seed=seed))
        assert list(run.run(device="cpu", threads=1))
    stopped(folder / "seed-3", experiment(seed=3), 9)
    return folder


def digit(data: bytes, dice: random.Random) -> bytes:
    """Change one digit into another one."""
    at = dice.choice([m.start() for m in re.finditer(rb"[0-9]", data)])
    other = dice.choice([d for d in b"0123456789" if d != data[at]])
    return data[:at] + bytes([other]) + data[at + 1 :]


def lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Any:
    return lambda data, dice: b"".join(change(data.splitlines(keepends=True), dice))


def drop(of: list[bytes], dice: random.Random) -> list[bytes]:
    at = dice.randrange(len(of))
    return of[:at] + of[at + dice.choice([1, 1, 2]) :]


def double(of: list[bytes], dice: random.Random) -> list[bytes]:
    at = dice.randrange(len(of))
    return [*of[:at], of[at], *of[at:]]


def swap(of: list[bytes], dice: random.Random) -> list[bytes]:
    one, other = dice.sample(range(len(of)), 2)
    of[one], of[other] = of[other], of[one]
    return of


def flip(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def lose(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + data[at + dice.choice([1, 1, 8, 64]) :]


def blank(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes(len(data[at : at + 16])) + data[at + 16 :]


KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "digit": digit,
    "line dropped": lines(drop),
    "line twice": lines(double),
    "lines swapped": lines(swap),
    "cut short": lambda data, dice: data[: dice.randrange(len(data))],
    "bit": flip,
    "bytes lost": lose,
    "zeros": blank,
}


def mutations(folder: Path, count: int, seed: int = 0) -> Iterator[tuple[str, Path, bytes]]:
    """Yield kinds of damage, each with the file it befalls and what then is in it."""
    dice = random.Random(seed)
    files = [file for name in FILES for file in sorted(folder.glob(f"*/{name}"))]
    kinds = [*KINDS] * (count // len(KINDS) + 1)
    for kind in kinds[:count]:
        file = dice.choice(files)
        data = changed = file.read_bytes()
        while changed == data:
            changed = KINDS[kind](data, dice)
        yield kind, file, changed
    for name in FILES:  # whole files of another run
        one, other = sorted(folder.glob(f"*/{name}"))[:2]
        yield "another run's", one, other.read_bytes()


def shown(folder: Path, run: Path, out: Path) -> dict[str, str]:
    """Return all that is printed of some runs; of one that is damaged what is wrong with it."""
    found = find_runs([folder])
    table = make_table(found, ["A_AUC", "A_last", "AOA", "forgetting"], costs=True)
    whole = [run for run in found if not run.damage]
    files = {path.name: path.read_text() for path in export_csv(whole, out)}
    (damage,) = (one.damage for one in found if one.path == run)
    return {"table": FORMATS["json"](table), **files, "run": damage or gone_on(run)}


def gone_on(path: Path) -> str:
    """Return what `earl resume` says of a run that has ended, or does with one that has not."""
    run = RunDirectory(path)
    if run.summary is not None:
        return json.dumps(run.summary)
    Saves(path, json.loads((path / "experiment.json").read_text()), []).go_on(learner_of(path))
    return read_lines(path / "history.jsonl").decode()


@cache
def learner_of(path: Path) -> Any:
    return RunDirectory(path).experiment.build().learner


def silent(folder: Path, out: Path, count: int, seed: int = 0) -> list[str]:
    """Return the mutations after which something else is printed and no file is named."""
    before = {run: shown(folder, run, out) for run in folder.iterdir()}
    passed = []
    for kind, file, data in mutations(folder, count, seed):
        kept, run = file.read_bytes(), file.parent
        file.write_bytes(data)
        after = shown(folder, run, out)  # anything but an error of ours fails the test
        file.write_bytes(kept)
        named = str(run) in after["run"] and f"): {run.name}" in after["table"]
        if not named and after != before[run]:
            passed.append(f"{kind} in {run.name}/{file.name}")
    assert {run: shown(folder, run, out) for run in before} == before
    print(f"mutations={count + len(FILES)} silent={len(passed)} seed={seed}")
    return passed


def test_no_damage_to_history_or_summary_passes_in_silence(runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs, tmp_path / "runs")
    assert silent(folder, tmp_path, MUTATIONS) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_no_damage_of_many_passes_in_silence(seed: int, runs: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(runs, tmp_path / "runs")
    assert silent(folder, tmp_path, 1000, seed) == []


def test_without_seals_damage_passes_in_silence(runs: Path, tmp_path: Path) -> None:
    """The control: invariants alone do not suffice."""
    folder = shutil.copytree(runs, tmp_path / "runs")
    for path in folder.iterdir():
        strip_seals(path)
    passed = silent(folder, tmp_path, 64)
    assert any(entry.startswith("digit in seed-1/history") for entry in passed), passed
    assert any(entry.endswith("summary.json") for entry in passed), passed


def test_a_table_leaves_out_the_damaged_run_names_it_and_exits_with_65(
    runs: Path, tmp_path: Path, children: Children
) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    whole = children.run("-m", "earl", "table", "runs", "--json", cwd=tmp_path)
    assert (whole.returncode, whole.stderr) == (0, "")
    file = tmp_path / "runs/seed-2/history.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"online_correct":', b'"online_correct": ', 1))
    for words in (["table", "--json"], ["figure", "curves"], ["report"], ["export", "csv"]):
        done = children.run("-m", "earl", *words, "runs", cwd=tmp_path)
        assert done.returncode == 65, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("earl: ")]
        assert line.startswith("earl: left out as damaged: runs/seed-2/history.jsonl is not what ")
    assert "seed-2" in (tmp_path / "report.html").read_text()
    assert "seed-2" not in (tmp_path / "export/runs.csv").read_text()
    done = children.run("-m", "earl", "resume", "runs/seed-2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith("earl: runs/seed-2/history.jsonl is not what it was when the run")


def test_a_sweep_does_not_take_a_damaged_run_for_finished(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / experiment().path()
    shutil.copytree(runs / "seed-1", path)
    assert [status.state for status in survey([experiment()], tmp_path)] == ["finished"]
    for name in FILES:
        kept = (path / name).read_bytes()
        (path / name).write_bytes(digit(kept, random.Random(1)))
        (status,) = survey([experiment()], tmp_path)
        assert status.state == "failed" and str(path / name) in status.message
        with pytest.raises(DamagedRun):
            assert RunDirectory(path).history
        (path / name).write_bytes(kept)


def test_if_every_run_is_damaged_the_first_is_named(
    runs: Path, tmp_path: Path, children: Children
) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    for file in tmp_path.glob("runs/*/history.jsonl"):
        file.write_bytes(file.read_bytes()[40:])
    done = children.run("-m", "earl", "table", "runs", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (65, "")
    assert done.stderr.startswith("earl: runs/seed-1/history.jsonl, line 1 is not a record of an ")
    assert done.stderr.endswith("(and so are 2 more runs)\n")


# ---- runs of earlier versions


def test_runs_without_seals_are_read_with_a_note(
    runs: Path, tmp_path: Path, children: Children
) -> None:
    folder = shutil.copytree(runs, tmp_path / "runs")
    sealed = children.run("-m", "earl", "table", "runs", cwd=tmp_path)
    for path in folder.iterdir():
        strip_seals(path)
    old = children.run("-m", "earl", "table", "runs", cwd=tmp_path)
    assert (old.returncode, old.stdout) == (0, sealed.stdout)
    assert old.stderr == (
        "note: 3 of 3 runs have no seals, as in earlier versions: damage to them would go unseen\n"
    )
    ended = children.run("-m", "earl", "resume", "runs/seed-1", cwd=tmp_path)
    assert ended.returncode == 0 and "note: this run has no seals" in ended.stderr


def test_a_run_without_seals_goes_on_with_a_note_and_has_them_when_it_ends(
    runs: Path, tmp_path: Path
) -> None:
    run = RunDirectory(shutil.copytree(runs / "seed-3", tmp_path / "run"))
    strip_seals(run.path)
    assert list(run.run())
    assert run.notes == [
        "snap-000000000009 has no seals, as in earlier versions: damage to it would go unseen"
    ]
    assert run.summary is not None and "seals" in run.summary
    sealed = RunDirectory(shutil.copytree(runs / "seed-3", tmp_path / "sealed"))
    assert list(sealed.run()) and sealed.notes == []
    assert read_lines(run.path / FILES[0]) == read_lines(sealed.path / FILES[0])


def test_a_run_that_says_it_has_seals_must_have_them(runs: Path, tmp_path: Path) -> None:
    for seed, error in ((1, DamagedRun), (3, SnapshotError)):
        path = shutil.copytree(runs / f"seed-{seed}", tmp_path / f"seed-{seed}")
        record = (path / "experiment.json").read_bytes()
        strip_seals(path)
        (path / "experiment.json").write_bytes(record)
        with pytest.raises(error, match=r"not what was written|a snapshot of another run"):
            list(RunDirectory(path).run())


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


def foreign(host: Path) -> list[str]:
    """Return in what snapshots differed that a run has taken for its own."""
    run = RunDirectory(host)
    found, passed, count = read_newest(host / "snapshots"), [], 0
    assert found is not None
    for name, other in others(run.experiment):
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
    assert {"lr", "batch_size", "seed"} <= set(foreign(host))


@pytest.mark.parametrize("method", METHODS.names())
def test_no_setting_of_any_method_can_differ_unseen(method: str) -> None:
    here, count = record_of(experiment(method)), 0
    for name, other in others(experiment(method)):
        count += 1
        with pytest.raises(SnapshotError, match=rf"another run \({name} = "):
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
