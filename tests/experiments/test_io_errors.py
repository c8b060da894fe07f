"""Errors of the disk speak: one line, exit code 1, and the run goes on as if nothing had been."""

import errno
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from earl.cli import end as cli_end
from earl.cli.app import app
from earl.cli.end import outcome
from earl.cli.failures import ADVICE, explained
from earl.crashtest import disk as faulty_disk
from earl.crashtest.points import Early
from earl.experiments.runs import historyfile, saves
from earl.experiments.runs.clock import Clock

ERRORS = (errno.ENOSPC, errno.EIO, errno.ENOLCK, errno.EROFS, errno.EACCES, errno.EMFILE)
SMALL = ["--limit", "16", "--threads", "1", "--set", "every=8", "--set", "depth=4"]


@pytest.fixture(autouse=True)
def steady_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot at every fifth sample, whatever the clock says: every run makes the same calls."""
    turns = itertools.count(1)
    monkeypatch.setattr(Clock, "due", lambda self, writing: next(turns) % 5 == 0)


@dataclass
class Case:
    """One run that met an error: its exit code, what it said, and what came of it in the end."""

    code: int | None  # None: an exception got out
    said: str
    history: bytes = b""

    def wrong(self, expected: bytes) -> str:
        """Say what is wrong with it, or nothing."""
        lines = [line for line in self.said.splitlines() if not line.startswith("er: ")]
        if self.code is None:
            return f"a traceback: {self.said}"
        if self.code and (len(lines) != 1 or not lines[0].startswith("earl: ")):
            return f"not one line: {self.said!r}"
        if self.code not in (0, 1, 65):
            return f"exit code {self.code}"
        return "" if self.history == expected else "another history after the restart"


@dataclass
class Harness:
    """A small run in fresh folders, whose disk fails in a way that is given each time."""

    place: Path
    capsys: pytest.CaptureFixture[str]
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def run(self, act: faulty_disk.Act) -> tuple[Case, list[str]]:
        """Run with a disk that acts up, then once more without; return how, and all its calls."""
        out = self.place / str(next(self.numbers))
        with faulty_disk.watched(out, act) as disk:
            case = self.once(out)
        if case.code != 0:
            again = self.once(out)
            assert again.code == 0, f"after {case.said!r} it does not go on: {again.said}"
        case.history = next(out.rglob("history.jsonl")).read_bytes()
        return case, disk.calls

    def once(self, out: Path) -> Case:
        words = ["run", "--method", "er", "--dataset", "shapes", *SMALL, "--out", str(out / "runs")]
        try:
            code = outcome(app, words)
        except Exception as error:
            return Case(None, f"{self.capsys.readouterr().err}{type(error).__name__}: {error}")
        return Case(code, self.capsys.readouterr().err)

    def report(self, acts: Sequence[faulty_disk.Act]) -> list[str]:
        """Return what was wrong with each run whose disk acts like this."""
        clean, _ = self.run(faulty_disk.nothing)
        assert clean.code == 0 and clean.history
        cases = [self.run(act)[0] for act in acts]
        assert sum(case.code != 0 for case in cases) > len(cases) / 2  # few errors do no harm
        return [wrong for case in cases if (wrong := case.wrong(clean.history))]


@pytest.fixture
def harness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Harness:
    return Harness(tmp_path, capsys)


def every_error(calls: int, step: int) -> list[faulty_disk.Act]:
    """Return failures spread over all calls of a run, for once or for good, the errors in turn."""
    codes = itertools.cycle(ERRORS)
    return [
        faulty_disk.fail(at, next(codes), for_good)
        for number, at in enumerate(range(0, calls, step))
        for for_good in ((number % 2 == 0,) if step > 1 else (False, True))
    ]


def test_an_error_at_a_durable_operation_is_one_line_and_the_run_goes_on(harness: Harness) -> None:
    _, calls = harness.run(faulty_disk.nothing)
    assert {"open", "write", "fsync", "mkdir", "rename", "replace", "flock"} <= set(calls)
    assert harness.report(every_error(len(calls), step=9)) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_error_at_any_operation_whatsoever(harness: Harness) -> None:
    _, calls = harness.run(faulty_disk.nothing)
    acts = every_error(len(calls), step=1)
    wrong = harness.report(acts)
    print(f"\nerrors={len(acts)} calls={len(calls)} wrong={len(wrong)}")
    assert wrong == []


def test_a_folder_that_is_removed_under_a_run_is_one_line(harness: Harness) -> None:
    _, calls = harness.run(faulty_disk.nothing)
    first = next(harness.numbers) + 1  # of the folders that are to come; a clean run is the first
    points = range(3, len(calls), len(calls) // 5)
    folders = [harness.place / str(first + n) / "runs" for n in range(1, len(points) + 1)]
    acts = [faulty_disk.remove(at, f) for at, f in zip(points, folders, strict=True)]
    assert harness.report(acts) == []


def test_the_harness_sees_tracebacks_where_nothing_explains_errors(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: without the seam, errors of the disk are tracebacks."""

    def unexplained(error: OSError) -> None:
        raise error

    _, calls = harness.run(faulty_disk.nothing)
    at = calls.index("fsync")
    monkeypatch.setattr(cli_end, "explained", unexplained)
    found = harness.report([faulty_disk.fail(at, errno.ENOSPC, for_good=True)])
    assert len(found) == 1 and "a traceback" in found[0] and "No space left" in found[0]


def test_the_harness_sees_a_history_that_is_not_cut_back(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: lines after the snapshot a run goes on from stay; the run sees it and stops."""
    monkeypatch.setattr(saves, "Background", Early)  # so that a line follows the last snapshot
    monkeypatch.setattr(historyfile, "replace_text", careless(historyfile.replace_text))
    _, calls = harness.run(faulty_disk.nothing)
    saving = [at for at, name in enumerate(calls) if name == "mkdir"]  # of later snapshots
    acts = [faulty_disk.fail(at, errno.ENOSPC, for_good=True) for at in saving[-2:]]
    with pytest.raises(AssertionError, match="it does not go on: earl: another process works"):
        harness.report(acts)


def careless(replace: Callable[[Path, str], None]) -> Callable[[Path, str], None]:
    def written(path: Path, text: str) -> None:
        if path.name != "history.jsonl" or not path.exists():
            replace(path, text)

    return written


@pytest.mark.parametrize("words", [("run",), ("resume",), ("table",), ("table", "--format", "csv")])
def test_a_finished_run_on_a_read_only_disk_still_tells_its_result(
    words: tuple[str, ...], harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.run(faulty_disk.nothing)
    (path,) = harness.place.rglob("seed-1")
    with faulty_disk.watched(harness.place, faulty_disk.read_only):
        if words == ("run",):
            assert harness.once(harness.place / "0").code == 0
            return
        assert outcome(app, [*words, str(path)]) == 0
    out, said = capsys.readouterr()
    assert "er" in out and said == ""


@pytest.mark.parametrize("code", sorted(ADVICE))
def test_every_error_that_is_known_names_the_file_and_what_to_do(code: int) -> None:
    said = str(explained(OSError(code, "Something", "some/file")))
    assert said.startswith("some/file: Something; ") and len(said.partition("; ")[2]) > 15


def test_an_error_that_names_no_file_and_has_no_number_still_says_something() -> None:
    assert "an open file or the output" in str(explained(OSError(errno.EIO, "Input/output error")))
    assert "it went wrong" in str(explained(OSError("it went wrong")))
