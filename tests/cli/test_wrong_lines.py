"""Sixty wrong command lines: each is one line on stderr, with its exit code, and no traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

from earl.cli import end as cli_end
from earl.cli.app import app
from earl.cli.end import outcome

RUN = "run --method er --dataset shapes"
EARL = "run --method earl --dataset shapes"
SETTINGS = [  # of a run, each of which is refused
    (RUN, "memory_size=999999999999", "memory_size = 999999999999: so many images would take"),
    (RUN, "memory_size=0", "memory_size = 0 must be at least 1"),
    (RUN, "memory_size=1.5", "must be a whole number"),
    (RUN, "batch_size=1000000000", "batch_size = 1000000000: to train on so many images"),
    (RUN, "batch_size=-1", "batch_size = -1 must be at least 1"),
    (RUN, "width=1000000", "width = 1000000 must be from 1 to 65536"),
    (RUN, "width=60000", "width = 60000, depth = 8: the network in training would take"),
    (RUN, "width=0", "width = 0 must be from 1 to 65536"),
    (RUN, "depth=9", "depth = 9 must be one of 4, 6, 8, 10, 14, 18, 34"),
    (RUN, "stem=tiny", "is not one of auto, small, large"),
    (RUN, "lr=0", "lr = 0.0 must be above 0"),
    (RUN, "lr=nan", "must be a finite number"),
    (RUN, "lr=", "must be a number"),
    (RUN, "lr", "must have the form NAME=VALUE"),
    (RUN, "lrr=1", "did you mean 'lr'?"),
    (RUN, "=3", "must have the form NAME=VALUE"),
    (RUN, "padding=1000000000", "padding = 1000000000 must be from 0 to 256"),
    (RUN, "flip=perhaps", "must be true or false"),
    (RUN, "precision=int8", "is not one of float32, bfloat16"),
    (RUN, "every=0", "every = 0 must be at least 1"),
    (RUN, "tasks=0", "tasks = 0 must be at least 1"),
    (RUN, "tasks=1000", "tasks = 1000 must be from 1 to"),
    (RUN, "sigma=-1", "sigma = -1.0 must be at least 0"),
    (RUN, "rotate=45", "rotate = 45 must be one of 0, 90, 180, 270"),
    (RUN, "hold_out=1", "hold_out = 1.0 must be above 0 and below 1"),
    (RUN, "k=3", "no setting named 'k'"),
    (EARL, "hidden=1000000", "hidden = 1000000: Projection of the network in training would take"),
    (EARL, "d=1000000000000", "d = 1000000000000 must be from 1 to 1048576"),
    (EARL, "pairs_per_class=1000000000", "pairs_per_class = 1000000000: so many features"),
    (EARL, "negative=mirror", "is not one of rotation"),
    ("run --method der++ --dataset shapes", "future=1000000000", "must be from 0 to 10000"),
    ("run --method oddl --dataset shapes", "vae_hidden=1000000", "VAE of the network in training"),
    ("run --method scr --dataset shapes", "head_width=10000000", "must be from 1 to 1048576"),
    ("run --method x-der --dataset shapes", "future=0", "must be from 1 to 10000"),
]
LINES = [  # words, exit code, and a part of what is said
    *((f"{run} --set {setting}", 1, said) for run, setting, said in SETTINGS),
    ("run --method earll --dataset shapes", 1, "no method named 'earll'; did you mean 'earl'?"),
    ("run --method er --dataset digts", 1, "did you mean 'digits'?"),
    ("run --method er --dataset folder:nowhere", 1, "nowhere does not exist"),
    ("run --method er --dataset csv:", 1, "csv needs a path"),
    ("run --method er --dataset shapes:here", 1, "shapes takes no path"),
    (f"{RUN} --stream disjont", 1, "did you mean 'disjoint'?"),
    (f"{RUN} --stream file:nowhere.json", 1, "nowhere.json"),
    (f"{RUN} --device cuda:7", 1, "device = 'cuda:7' cannot be used"),
    (f"{RUN} --device foo", 1, "device = 'foo' cannot be used"),
    (f"{RUN} --threads 100000", 1, "threads = 100000 must be from 1 to 512"),
    (f"{RUN} --threads 0", 2, "--threads"),
    (f"{RUN} --seed -1", 1, "seed = -1"),
    (f"{RUN} --seed x", 2, "--seed"),
    (f"{RUN} --limit 0", 2, "--limit"),
    (f"{RUN} --probe nc", 1, "no probe named 'nc'"),
    (f"{RUN} --match flops", 1, "to match a budget"),
    (f"{RUN} --match flops --to err", 1, "no method named 'err'"),
    (f"{RUN} --out file", 1, "file: Not a directory; a file stands where a folder is needed"),
    (f"{RUN} --out file/below", 1, "file: Not a directory; a file stands where a folder is needed"),
    (f"{RUN} --sed 3", 2, "--sed"),
    ("run --method er", 2, "Missing option '--dataset'; see: earl run --help"),
    ("run", 2, "Missing option '--method'"),
    ("lst", 2, "No such command 'lst'. Did you mean 'list'?; see: earl --help"),
    ("list method", 2, "Did you mean 'methods'?"),
    ("--verson", 2, "--verson"),
    ("resume", 2, "see: earl resume --help"),
    ("resume nowhere", 1, "nowhere holds no run"),
    ("resume file", 1, "file holds no run"),
    ("settings --method none", 1, "no method named 'none'"),
    ("settings extra", 2, "extra"),
    ("data info nothing", 1, "no data set named 'nothing'"),
    ("stream show gaussian", 1, "say of which data set"),
    ("stream make disjoint --dataset shapes -o nowhere/s.json", 1, "there is no directory nowhere"),
    ("sweep nowhere.toml", 1, "nowhere"),
    ("sweep digits --threads 100000", 1, "threads = 100000 must be from 1 to 512"),
    ("reproduce nothing", 1, "no table or figure named 'nothing'"),
    ("table", 2, "see: earl table --help"),
    ("table nowhere", 1, "there is no folder nowhere"),
    ("table file", 1, "there is no folder file"),
    ("table . --format pdf", 2, "--format"),
    ("figure curve .", 1, "did you mean 'curves'?"),
    ("figure curves . -o picture.gif", 1, "picture.gif"),
    ("export xml .", 2, "xml"),
    ("export csv finished -o file", 1, "file: File exists; a file stands where a folder is needed"),
    ("bench --only nothing", 1, "the benchmark has no row 'nothing'"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_runs: Path) -> Path:
    """A folder with a file and finished runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EARL_DATA", str(tmp_path / "data"))
    Path("file").write_text("not a folder")
    Path("finished").symlink_to(few_runs)
    return tmp_path


def fault(line: str, code: int, part: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Carry out a wrong line; return what is wrong with how it ends, or nothing."""
    try:
        found = outcome(app, line.split())
    except Exception as error:
        return f"a traceback, {type(error).__name__}: {error}"
    out, said = capsys.readouterr()
    if found != code:
        return f"exit code {found}: {said}"
    if out or said.count("\n") != 1 or not said.startswith("earl: "):
        return f"not one line: {out!r}, {said!r}"
    return "" if part in said else f"does not say {part!r}: {said}"


@pytest.mark.parametrize(("line", "code", "part"), LINES, ids=[line for line, _, _ in LINES])
def test_a_wrong_line_is_one_line_and_its_exit_code(
    line: str, code: int, part: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fault(line, code, part, capsys) == ""
    assert not list(place.rglob("runs/**/experiment.json"))  # nothing began


def test_there_are_sixty_of_them_and_all_differ() -> None:
    assert len({line for line, _, _ in LINES}) == len(LINES) >= 60


CONTROLS: list[tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = [
    (
        f"{RUN} --out file",
        lambda patch: patch.setattr(cli_end, "explained", raising),
        "a traceback, NotADirectoryError",
    ),
    (
        f"{RUN} --device foo",
        lambda patch: (
            patch.setattr("earl.experiments.machine.usable_device", str),
            patch.setattr("earl.experiments.runs.directory.usable_device", str),
        )[0],
        "a traceback, RuntimeError",
    ),
    (
        f"{RUN} --set memory_size=999999999999",
        lambda patch: patch.setattr(
            "earl.experiments.estimate.require_room", lambda size, what: None
        ),
        "does not say",
    ),
    ("lst", lambda patch: patch.setattr(cli_end, "fail", wordy), "not one line"),
]


def raising(error: Exception) -> None:
    raise error


def wordy(text: str, code: int = 1) -> int:
    cli_end.complain(f"Usage: earl\n\n{text}")
    return code


@pytest.mark.parametrize(("line", "remove", "found"), CONTROLS, ids=[c[0] for c in CONTROLS])
def test_the_harness_sees_what_is_wrong_once_the_protection_is_gone(
    line: str,
    remove: Callable[[pytest.MonkeyPatch], None],
    found: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, code, part = next(wrong for wrong in LINES if wrong[0] == line)
    remove(monkeypatch)
    assert found in fault(line, code, part, capsys)
