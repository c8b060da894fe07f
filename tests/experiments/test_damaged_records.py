"""A damaged file of a run is an error in one line, whatever reads it."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from earl.cli.app import app
from earl.cli.end import outcome
from earl.errors import EarlError
from earl.experiments.runs import directory as rundirectory
from earl.experiments.runs.files import read_record
from earl.experiments.runs.seals import read_summary

READERS = ("table {}", "resume {}", "export csv {} -o out")
DRAWS = "figure curves {} -o out.png"  # which takes longer than they do
WRONG = (None, True, -1, 1e999, "text", [], {}, [[]], {"a": {}}, "\x1b[31m")


def texts(text: str) -> Iterator[bytes]:
    """Yield files that are no JSON, or not the JSON that they should be."""
    yield from (b"", b"\0", b"null", b"[]", b"3", b'"text"', b"{}", b"NaN", text.encode("utf-16"))
    yield text.encode()[: len(text) // 2]
    yield text.replace('"', "'").encode()
    yield b"\xff" + text.encode()
    yield b"[" * 100_000
    yield b'{"a":' * 100_000
    yield b'{"metrics": ' + b"9" * 5000 + b"}"


def values(record: Any, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the record with one thing missing, or one thing replaced by something else."""
    for path in paths(record):
        changed = json.loads(json.dumps(record))
        place = changed
        for step in path[:-1]:
            place = place[step]
        if chance.random() < 0.3:
            del place[path[-1]]
        else:
            place[path[-1]] = chance.choice(WRONG)
        yield changed


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything in a record."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in inner:
        yield (*above, key)
        if isinstance(below, dict | list):
            yield from paths(below, (*above, key))


def mutations(file: Path) -> list[bytes]:
    text, chance = file.read_text(), random.Random(file.name)
    damaged = [json.dumps(record).encode() for record in values(json.loads(text), chance)]
    return [*texts(text), *damaged]


def ends_badly(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Carry out a command; return what is wrong with how it ends, or nothing."""
    try:
        code = outcome(app, words)
    except Exception as error:
        return f"{words[0]}: {type(error).__name__}: {error}"
    _, said = capsys.readouterr()
    lines = [line for line in said.splitlines() if not line.startswith(("note: ", "er: "))]
    if code not in (0, 1, 65) or (code and (len(lines) != 1 or not lines[0].startswith("earl: "))):
        return f"{words[0]}: {code}, {said!r}"
    return ""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_runs: Path) -> Path:
    """A copy of a finished run."""
    monkeypatch.chdir(tmp_path)
    path = next(few_runs.rglob("er/seed-1"), None) or next(few_runs.rglob("er*/seed-1"))
    shutil.copytree(path, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["summary.json", "experiment.json"])
def test_no_damage_to_a_record_is_a_traceback(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for number, data in enumerate(mutations(run / name)):
        shutil.rmtree("copy", ignore_errors=True)
        shutil.copytree(run, "copy")
        Path("copy", name).write_bytes(data)
        reader = DRAWS if number % 10 == 9 else READERS[number % 3]  # all of them read both files
        if fault := ends_badly(reader.format("copy").split(), capsys):
            found.append(f"{data[:200]!r}: {fault}")
    assert found == []


@pytest.mark.parametrize("name", ["read_record", "read_summary"])
def test_the_harness_sees_tracebacks_where_records_are_not_checked(
    name: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control: files read as they are."""

    def unchecked(file: Path, *_: object) -> Any:
        return json.loads(file.read_text())

    monkeypatch.setattr(rundirectory, name, unchecked)
    (run / {"read_record": "experiment.json", "read_summary": "summary.json"}[name]).write_text("3")
    assert "Error" in ends_badly(["resume", "run"], capsys)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not the summary of a run; put the file back"),
        ("[]", "is not the summary of a run; put the file back"),
        ("{}", "is not what was written; put the file back"),
    ],
)
def test_the_error_names_the_summary_and_what_to_do(text: str, says: str, run: Path) -> None:
    file, record = run / "summary.json", read_record(run / "experiment.json")
    assert read_summary(run / "nothing.json", record) is None
    file.write_text(text)
    with pytest.raises(EarlError) as error:
        read_summary(file, record)
    assert str(file) in str(error.value) and says in str(error.value)
