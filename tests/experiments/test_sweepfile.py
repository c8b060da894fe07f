"""Sweep files: which runs a file means, and what a wrong one is told."""

import os
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from earl.cli.app import app
from earl.cli.text import parse_settings
from earl.errors import DataNotFound, EarlError, SweepFileError, UnknownName
from earl.experiments.experiment import Experiment
from earl.experiments.sweeps.sweepfile import LARGEST, SweepFile, bundled, find

GRID = '[[grid]]\nmethod = "er"\ndataset = "shapes"\nstream = "disjoint"\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def expanded(folder: Path, text: str) -> tuple[Experiment, ...]:
    return SweepFile.open(written(folder, 'title = "T"\n' + text)).experiments


def test_a_grid_is_the_product_of_its_lists(tmp_path: Path) -> None:
    text = """
        [[grid]]
        method = ["er", "earl"]
        dataset = "shapes"
        stream = ["disjoint", "gaussian"]
        seed = [1, 7]
    """
    found = [(e.method, e.stream, e.seed) for e in expanded(tmp_path, text)]
    methods, streams = ("er", "earl"), ("disjoint", "gaussian")
    assert found == [(m, s, seed) for m in methods for s in streams for seed in (1, 7)]


def test_a_list_in_the_settings_is_one_more_factor(tmp_path: Path) -> None:
    text = """
        [[grid]]
        method = "earl"
        dataset = "shapes"
        stream = "gaussian"
        seed = [1, 2]
        probes = ["collapse"]
        [grid.settings]
        every = 20
        k = [5, 15]
        correction = [true, false]
    """
    runs = expanded(tmp_path, text)
    found = [(e.seed, e.settings["k"], e.settings["correction"]) for e in runs]
    assert found == [(s, k, c) for s in (1, 2) for k in (5, 15) for c in (True, False)]
    assert all(e.settings["every"] == 20 and e.probes == ("collapse",) for e in runs)


def test_what_grids_share_is_said_once_and_a_grid_may_say_otherwise(tmp_path: Path) -> None:
    text = """
        [common]
        dataset = "shapes"
        stream = "gaussian"
        seed = [1, 2]
        [common.settings]
        every = 20
        lr = [1e-3, 3e-3]
        [[grid]]
        method = "er"
        [[grid]]
        method = "earl"
        seed = 3
        settings = { lr = 0.01, k = 5 }
    """
    *of_er, of_earl = expanded(tmp_path, text)
    found = [(e.method, e.seed, dict(e.settings)) for e in of_er]
    rates = [{"every": 20, "lr": lr} for lr in (1e-3, 3e-3)]
    assert found == [("er", seed, settings) for seed in (1, 2) for settings in rates]
    assert (of_earl.stream, of_earl.seed) == ("gaussian", 3)
    assert of_earl.settings == {"every": 20, "lr": 0.01, "k": 5}


def test_grids_add_up_and_a_run_of_two_grids_is_run_once(tmp_path: Path) -> None:
    both = GRID + "seed = [1, 2]\n" + GRID + "seed = [3, 2]\n"
    assert [e.seed for e in expanded(tmp_path, both)] == [1, 2, 3]
    of_both_methods = GRID + '[grid.settings]\nlr = 0.1\n[[grid]]\nmethod = "earl"\n'
    of_both_methods += 'dataset = "shapes"\nstream = "disjoint"\n[grid.settings]\nk = 5\n'
    er, earl = expanded(tmp_path, of_both_methods)
    assert (er.settings, earl.settings) == ({"lr": 0.1}, {"k": 5})


def test_title_and_the_table_it_reproduces_are_kept(tmp_path: Path) -> None:
    file = SweepFile.open(written(tmp_path, 'title = "T"\nabout = "why"\ntable = "main"\n' + GRID))
    assert (file.title, file.about, file.table) == ("T", "why", "main")
    (run,) = file.experiments
    assert run == Experiment(method="er", dataset="shapes", stream="disjoint", seed=1)


def test_a_grid_passes_on_what_compute_is_matched_to(tmp_path: Path) -> None:
    text = GRID.replace('"er"', '"earl"') + 'match = "flops"\nto = "er"\n'
    (run,) = expanded(tmp_path, text)
    assert (run.match, run.to) == ("flops", "er")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "is not TOML"),
        (GRID, "it needs a title"),
        ("title = 3\n" + GRID, "title = 3 must be text"),
        ('title = "T"\ntabel = "main"\n' + GRID, "no key named 'tabel'; did you mean 'table'?"),
        ('title = "T"\n', "at least one [[grid]]"),
        ('title = "T"\ngrid = 3', "double brackets"),
        ('title = "T"\n' + GRID.replace("[[grid]]", "[grid]"), "double brackets"),
        ('title = "T"\n' + GRID + "seeds = 1", "grid 1: no key named 'seeds'; did you mean 'seed'"),
        ('title = "T"\n' + GRID + "[[grid]]\n", "grid 2: method is missing"),
        ('title = "T"\n' + GRID + "seed = []", "seed = [] holds nothing to run"),
        ('title = "T"\n' + GRID + "seed = [1, 2, 1]", "seed holds 1 twice"),
        ('title = "T"\n' + GRID + "seed = '1'", "seed = '1' must be a whole number"),
        ('title = "T"\n' + GRID + "seed = [true]", "seed = True must be a whole number"),
        ('title = "T"\n' + GRID + "seed = -1", "seed = -1 must be a whole number from 0 up"),
        ('title = "T"\n' + GRID + "match = 'flops'", "to match a budget, say which"),
        ('title = "T"\n' + GRID + "match = 'time'\nto = 'er'", "must be 'flops' or 'bytes'"),
        ('title = "T"\n' + GRID + "probes = ['nc']", "no probe named 'nc'"),
        ('title = "T"\n' + GRID + "settings = 3", "settings must be a table"),
        ('title = "T"\n[common]\nsettings = 3\n' + GRID, "settings must be a table"),
        ('title = "T"\ncommon = 3\n' + GRID, "one table: [common]"),
        ('title = "T"\n[common]\nsede = 3\n' + GRID, "no key named 'sede'"),
        ('title = "T"\n' + GRID + "settings = {lrr = 1}", "did you mean 'lr'?"),
        ('title = "T"\n' + GRID + "settings = {lr = []}", "lr = [] holds nothing to run"),
        ('title = "T"\n' + GRID + "settings = {lr = 'x'}", "lr = 'x' must be a number"),
        ('title = "T"\n' + GRID + "settings = {lr = 2020-01-01}", "must be a number, text"),
        ('title = "T"\n' + GRID.replace("er", "err"), "no method named 'err'; did you mean 'er'?"),
        ('title = "T"\n' + GRID.replace("shapes", "shape"), "did you mean 'shapes'?"),
        ('title = "T"\n' + GRID.replace("disjoint", "disjont"), "did you mean 'disjoint'?"),
        (
            'title = "T"\n' + GRID.replace('"er"', '["er", "earl"]') + "settings = {k = 3}",
            "er has no setting 'k', which earl has; put these methods in separate [[grid]]s",
        ),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong_and_where(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SweepFileError) as error:
        SweepFile.open(written(tmp_path, text))
    assert message in str(error.value) and "mine.toml" in str(error.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match=r"no sweep file .*none\.toml"):
        SweepFile.open(tmp_path / "none.toml")
    with pytest.raises(SweepFileError, match="not a regular file but a directory"):
        SweepFile.open(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(SweepFileError, match=r"bytes\.toml, line 1: the byte 0xff is not UTF-8"):
        SweepFile.open(tmp_path / "bytes.toml")


@pytest.mark.parametrize(
    "text",
    [
        "title = " + "[" * 100_000,
        "title = " + "{a = " * 100_000,
        "title" + ".a" * 2000 + " = 1",
        "[[grid" + ".a" * 2000 + "]]",
        "[grid" + " . 'b c'" * 2000 + "]",
        "grid = {a" + '."x"' * 2000 + " = 1}",
        'title = "x"\n[[grid]]\nmethod = ' + "[" * 900 + "]" * 900,
    ],
)
def test_a_file_that_is_nested_too_deeply_is_one_line(text: str, tmp_path: Path) -> None:
    with pytest.raises(SweepFileError) as error:
        SweepFile.open(written(tmp_path, text))
    assert "\n" not in str(error.value) and "mine.toml" in str(error.value)


@pytest.mark.timeout(60)
def test_a_pipe_and_a_huge_file_are_no_sweep_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(SweepFileError, match="not a regular file but a pipe"):
        SweepFile.open(tmp_path / "pipe.toml")
    (tmp_path / "huge.toml").touch()
    os.truncate(tmp_path / "huge.toml", LARGEST + 1)
    with pytest.raises(SweepFileError, match="more than 1048576"):
        SweepFile.open(tmp_path / "huge.toml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text("er[]\"'=#", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


def toml(value: object) -> str:
    """Write a value as TOML; None becomes something that no file may hold."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


@given(
    key=st.sampled_from(["method", "dataset", "stream", "seed", "probes", "settings", "x"]),
    value=VALUES,
)
def test_any_value_gives_runs_or_an_error_of_ours(
    key: str, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    good = {"method": "er", "dataset": "shapes", "stream": "iid"}
    lines = [f"{k} = {toml(v)}" for k, v in (good | {key: value}).items()]
    path = written(tmp_path_factory.getbasetemp(), 'title = "T"\n[[grid]]\n' + "\n".join(lines))
    try:
        assert SweepFile.open(path).experiments
    except EarlError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("name", bundled())
def test_the_files_that_come_with_earl_are_right(name: str) -> None:
    file = SweepFile.open(find(name))
    paths = [experiment.path() for experiment in file.experiments]
    assert len(set(paths)) == len(paths) >= 1


def test_a_file_is_found_by_its_path_and_earls_own_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find("digits") == bundled()["digits"] and find("digits").is_file()
    assert find("no.toml") == Path("no.toml")
    with pytest.raises(UnknownName, match="did you mean 'digits'"):
        find("digit")
    Path("digits").write_text("")
    assert find("digits") == Path("digits")  # what is there comes first


RUN = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]


@given(
    method=st.sampled_from(["er", "earl"]),
    stream=st.sampled_from(["disjoint", "gaussian"]),
    seed=st.integers(0, 2**40),
    settings=st.fixed_dictionaries(
        {},
        optional={
            "lr": st.floats(0, exclude_min=True, allow_nan=False, allow_infinity=False),
            "every": st.integers(1, 10**6),
            "flip": st.booleans(),
            "mean": st.text("=, -0'\"é", max_size=9).map(str.strip),
        },
    ),
    probes=st.sampled_from([(), ("collapse",)]),
    match=st.sampled_from([{}, {"match": "flops", "to": "er"}, {"match": "bytes", "to": "er"}]),
)
def test_the_command_of_an_experiment_gives_the_same_experiment(
    match: dict[str, str], **fields: object
) -> None:
    experiment = Experiment(dataset="shapes", **fields, **match)  # type: ignore[arg-type]
    first, *words = experiment.command()
    read = RUN.make_context(first, words).params
    again = Experiment(
        settings=parse_settings(read["settings"] or []),
        probes=tuple(read["probe"] or ()),
        **{name: read[name] for name in ("method", "dataset", "stream", "seed", "match", "to")},
    )
    assert first == "run" and again == experiment
