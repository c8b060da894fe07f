"""Seals: no damaged number is printed, no snapshot of another run is taken, no two runs mix.

The harnesses count what passes in silence, and each has a control: with the protection taken out it
must count some.
"""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from children import Children
from earl.crashtest.damage import cut, flip
from earl.errors import DamagedRun, SnapshotError
from earl.evaluation.history import read_lines
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from earl.experiments.runs.saves import Saves
from earl.experiments.sweeps.sweep import survey
from earl.report.export.tables import export_csv
from earl.report.tables import make_table
from earl.report.tables.formats import FORMATS
from run_folders import strip_seals
from sealed_runs import experiment

FILES = ("history.jsonl", "summary.json")
MUTATIONS = 220


# ---- damage


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
    "cut short": cut,
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
