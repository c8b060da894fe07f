"""Exports: other programs read what the histories say, and read it once."""

import csv
import io
import shutil
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earl.cli.progress import Stopped, follow
from earl.errors import DirectoryInUse, EarlError
from earl.evaluation.metrics import a_auc
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from earl.report.export.tables import export_csv, export_parquet, write_csv
from earl.report.export.tensorboard import TensorBoardLog, export_tensorboard, mirror
from earl.storage.files import lock_directory
from run_folders import write_run


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ---- tables


def test_csv_files_hold_the_histories(few_runs, tmp_path):
    runs = find_runs([few_runs])
    paths = export_csv(runs, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["runs.csv", "evaluations.csv", "classes.csv"]
    by_run, by_evaluation, by_class = map(read, paths)
    assert len(by_run) == 4 and len(by_evaluation) == 16
    for run, line in zip(runs, by_run, strict=True):
        assert (line["run"], line["method"]) == (run.name, run.experiment.method)
        assert float(line["A_AUC"]) == a_auc(run.history)
        assert float(line["images"]) == run.history[-1].extra["images"]
        assert (line["set.per_class"], line["finished"]) == ("10", "True")
        assert line["set.k"] == ("15" if run.experiment.method == "earl" else "")
        lines = [line for line in by_evaluation if line["run"] == run.name]
        assert [int(line["step"]) for line in lines] == [e.step for e in run.history]
        for number, (e, line) in enumerate(zip(run.history, lines, strict=True), start=1):
            assert float(line["accuracy"]) == e.accuracy
            assert float(line["online_accuracy"]) == e.online_correct / e.online_total
            assert float(line["A_AUC"]) == pytest.approx(a_auc(run.history[:number]))
            assert int(line["classes_seen"]) == len(e.total)
            counts = [c for c in by_class if c["run"] == run.name and int(c["step"]) == e.step]
            assert {int(c["class"]): int(c["correct"]) for c in counts} == e.correct
            assert {int(c["class"]): int(c["total"]) for c in counts} == e.total


def test_parquet_files_hold_the_same_with_types(few_runs, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    runs = find_runs([few_runs])
    for text, table in zip(export_csv(runs, tmp_path), export_parquet(runs, tmp_path), strict=True):
        lines, rows = read(text), pq.read_table(table).to_pylist()
        assert len(lines) == len(rows) and list(lines[0]) == list(rows[0])
        for line, row in zip(lines, rows, strict=True):
            for name, value in row.items():
                assert line[name] == ("" if value is None else str(value)) or (
                    float(line[name]) == value
                )
    (row, *_) = pq.read_table(tmp_path / "runs.parquet").to_pylist()
    kinds = {"seed": int, "finished": bool, "A_AUC": float, "method": str, "set.lr": float}
    assert {name: type(row[name]) for name in kinds} == kinds


def test_runs_that_have_not_begun_are_listed_too(tmp_path):
    write_run(tmp_path / "runs", "er", 1, [], finished=False)
    write_run(tmp_path / "runs", "er", 2, [0.5])
    runs = find_runs([tmp_path / "runs"])
    new, done = read(export_csv(runs, tmp_path)[0])
    assert (new["samples"], new["A_AUC"], new["finished"]) == ("0", "", "False")
    assert (done["samples"], done["A_AUC"]) == ("40", "0.5")


LINES = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers() | st.text('x,\n"'))


@given(lines=st.lists(LINES, min_size=1))
def test_lines_of_different_names_are_written_as_by_a_writer_that_knows_all_of_them(lines):
    names, expected = dict.fromkeys(name for line in lines for name in line), io.StringIO()
    writer = csv.DictWriter(expected, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    with TemporaryDirectory() as folder:
        write_csv(Path(folder, "lines.csv"), lambda: iter(lines))
        assert Path(folder, "lines.csv").read_bytes() == expected.getvalue().encode()


def test_exporting_again_gives_the_same_bytes_and_leaves_nothing_behind(few_runs, tmp_path):
    runs = find_runs([few_runs])
    first = [path.read_bytes() for path in export_csv(runs, tmp_path)]
    assert [path.read_bytes() for path in export_csv(runs, tmp_path)] == first
    assert len(list(tmp_path.iterdir())) == 3


def test_two_runs_of_one_name_are_refused(few_runs, tmp_path):
    shutil.copytree(few_runs, tmp_path / "copy")
    with pytest.raises(EarlError, match="would both be called"):
        export_csv(find_runs([few_runs, tmp_path / "copy"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "export", "extra"),
    [("pyarrow", export_parquet, "data"), ("tensorboard", export_tensorboard, "track")],
)
def test_a_missing_package_is_named_with_its_extra(module, export, extra, monkeypatch, tmp_path):
    write_run(tmp_path, "er", 1, [0.5])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EarlError, match=rf": pip install \"earl-learn\[{extra}\]\""):
        export(find_runs([tmp_path]), tmp_path / "out")


# ---- TensorBoard


@pytest.fixture
def events():
    """Return a reader of what TensorBoard would show: {name: [(step, value)]}."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard"
    )

    def read_events(folder):
        reader = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
        reader.Reload()
        scalars = {name: reader.Scalars(name) for name in reader.Tags()["scalars"]}
        assert {event.wall_time for of in scalars.values() for event in of} == {0.0}
        return {name: [(e.step, e.value) for e in of] for name, of in scalars.items()}

    return read_events


def expected(history):
    """Return what a board of this history shows, in the precision of its files."""
    curves = {
        "accuracy": [e.accuracy for e in history],
        "online_accuracy": [e.online_correct / e.online_total for e in history],
        "A_AUC": [a_auc(history[: n + 1]) for n in range(len(history))],
        "classes_seen": [len(e.total) for e in history],
        **{name: [e.extra[name] for e in history] for name in history[0].extra},
    }
    steps = [e.step for e in history]
    return {
        name: [
            (step, pytest.approx(value, rel=1e-6)) for step, value in zip(steps, of, strict=True)
        ]
        for name, of in curves.items()
    }


def test_boards_mirror_the_runs_and_show_their_histories(few_runs, tmp_path, events):
    runs = find_runs([few_runs])
    folders = export_tensorboard(runs, tmp_path)
    assert folders == [tmp_path / run.name for run in runs]
    for run, folder in zip(runs, folders, strict=True):
        assert events(folder) == expected(run.history)


def test_exporting_again_shows_nothing_twice_and_spares_other_files(few_runs, tmp_path, events):
    runs = find_runs([few_runs])
    (folder, *_) = export_tensorboard(runs, tmp_path)
    (folder / "events.out.tfevents.1.other").write_bytes(b"")
    export_tensorboard(runs, tmp_path)
    assert len(list(folder.iterdir())) == 2
    (folder / "events.out.tfevents.1.other").unlink()
    assert events(folder) == expected(runs[0].history)


@pytest.fixture
def stopped(few_runs, tmp_path):
    """A run that was stopped after 27 of its 40 samples, and a board beside it."""
    pytest.importorskip("tensorboard", reason="no tensorboard")
    first = find_runs([few_runs])[2]
    run = RunDirectory(tmp_path / "run", RunDirectory(first.path).experiment)
    moments = mirror(run, run.run(device="cpu", threads=1), tmp_path / "board")
    for moment in moments:
        if moment.step == 27:
            break
    moments.close()
    return run, first.history


def test_a_board_follows_a_run_and_goes_on_with_it(stopped, tmp_path, events):
    run, whole = stopped
    assert events(tmp_path / "board") == expected(whole[:2])
    TensorBoardLog(tmp_path / "board", whole).close()  # as if a later life had not been saved
    for moment in mirror(run, run.run(), tmp_path / "board"):
        if moment.step == 30:  # while it runs
            assert events(tmp_path / "board") == expected(whole[:3])
    assert events(tmp_path / "board") == expected(whole)
    assert list(mirror(run, run.run(), tmp_path / "late")) == []  # it has ended
    assert events(tmp_path / "late") == expected(whole)


def test_a_signal_saves_the_run_under_a_board(few_runs, tmp_path, events):
    """The board stands between the run and the progress bar, and must not get in its way."""
    from rich.console import Console

    example = RunDirectory(find_runs([few_runs])[2].path).experiment
    run = RunDirectory(tmp_path / "run", example)

    def interrupted():
        for moment in run.run(device="cpu", threads=1):
            if moment.step == 13:
                signal.raise_signal(signal.SIGTERM)
            yield moment

    with pytest.raises(Stopped):
        follow(
            mirror(run, interrupted(), tmp_path / "board"),
            name="er",
            console=Console(quiet=True),
        )
    assert (tmp_path / "run/snapshots").is_dir() and run.summary is None
    assert [step for step, _ in events(tmp_path / "board")["accuracy"]] == [10]


def test_a_run_in_use_leaves_the_board_of_its_user_alone(stopped, tmp_path):
    run, _ = stopped
    before = [path.name for path in (tmp_path / "board").iterdir()]
    with lock_directory(run.path), pytest.raises(DirectoryInUse):
        list(mirror(run, run.run(), tmp_path / "board"))
    assert [path.name for path in (tmp_path / "board").iterdir()] == before


# ---- the command


def test_the_command_writes_what_was_chosen(few_runs, tmp_path, monkeypatch, earl, events):
    monkeypatch.chdir(tmp_path)
    words = ("export", "tensorboard", few_runs, "-o", "logs", "--where", "method=er")
    code, out, _ = earl(*words)
    assert code == 0
    *folders, last = out.splitlines()
    assert len(folders) == 2 and last == "Next: tensorboard --logdir logs"
    assert all(events(tmp_path / folder)["accuracy"] for folder in folders)


def test_a_run_can_be_watched_from_the_command_line(tmp_path, monkeypatch, earl, events):
    monkeypatch.chdir(tmp_path)
    words = ["run", "--method", "er", "--dataset", "shapes", "--threads", "1"]
    words += ["--per-class", "5", "--set", "every=10"]
    for option in (["--tensorboard"], ["--tensorboard-dir", "logs"]):
        code, _, said = earl(*words, *option)
        assert code == 0, said
    path = "shapes,per_class=5/gaussian/er,every=10/seed-1"
    (run,) = find_runs([tmp_path / "runs"])
    assert events(tmp_path / "runs" / path) == events(tmp_path / "logs" / path)
    assert events(tmp_path / "logs" / path) == expected(run.history)
