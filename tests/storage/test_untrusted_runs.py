"""Run directories that somebody else has prepared: nothing hangs, nothing is read through links."""

import os
from pathlib import Path

import pytest

from earl.errors import EarlError
from earl.evaluation.history import LARGEST, read_history
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs
from earl.experiments.sweeps.engines import start_process
from earl.experiments.sweeps.sweep import survey, tail
from earl.storage import reading
from earl.storage.reading import LARGEST_RECORD, open_to_append, read_bounded
from earl.storage.snapshot import read_newest, write_snapshot
from run_folders import write_run

pytestmark = pytest.mark.timeout(60)  # what reads a pipe would wait for ever

FILES = ("experiment.json", "history.jsonl", "summary.json")
ODD = ("pipe", "link", "link to a device", "link to nothing", "directory", "too large")


def put(path: Path, kind: str) -> None:
    """Put something else in the place of a file; a link leads to what the file was."""
    real = path.with_name(f"real-{path.name}")
    path.rename(real)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(real)
    elif kind == "link to a device":
        path.symlink_to("/dev/null")
    elif kind == "link to nothing":
        path.symlink_to("nowhere")
    elif kind == "directory":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, (LARGEST if path.name.startswith("history") else LARGEST_RECORD) + 1)


def read_everything(folder: Path) -> None:
    for run in find_runs([folder]):
        assert run.history and run.finished


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_run_that_is_no_regular_file_is_refused_by_name(tmp_path, name, kind):
    path = write_run(tmp_path, "er", 1, [0.5])
    read_everything(tmp_path)
    put(path / name, kind)
    if name == "experiment.json" and kind == "directory":  # a folder without that file is no run
        with pytest.raises(EarlError, match="no runs in"):
            read_everything(tmp_path)
        return
    with pytest.raises(EarlError, match=rf"{name} .*; put the right file there"):
        read_everything(tmp_path)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", FILES)
def test_a_run_goes_on_with_regular_files_only(tmp_path, name, kind):
    experiment = Experiment(method="er", dataset="shapes", stream="disjoint")
    path = write_run(tmp_path, "er", 1, [0.5])
    put(path / name, kind)
    with pytest.raises(EarlError, match=rf"{name} .*; put the right file there"):
        opened = RunDirectory(path, experiment)
        assert opened.history and opened.summary
    status, *_ = survey([experiment], tmp_path)
    assert status.state == "failed" and name in status.message


def test_a_record_that_is_nested_too_deeply_is_no_record(tmp_path):
    for name in FILES:
        path = write_run(tmp_path / name, "er", 1, [0.5])
        (path / name).write_text("[" * 100_000 + "\n")
        with pytest.raises(EarlError, match=name):
            read_everything(tmp_path / name)


def test_snapshots_are_neither_written_nor_removed_through_a_link(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".tmp-dear").mkdir()  # a name that a write removes
    (tmp_path / "snapshots").symlink_to(elsewhere)
    with pytest.raises(EarlError, match="snapshots is a link"):
        write_snapshot(tmp_path / "snapshots", 1, {"n": 1}, about={})
    with pytest.raises(EarlError, match="snapshots is a link"):
        read_newest(tmp_path / "snapshots")
    assert [entry.name for entry in elsewhere.iterdir()] == [".tmp-dear"]


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_the_log_of_a_run_is_written_to_a_regular_file_only(tmp_path, kind):
    log = tmp_path / "log.txt"
    log.write_text("$ earl\nearl: what was wrong\n")
    put(log, kind)
    with pytest.raises(EarlError, match=r"cannot add to .*log\.txt"):
        start_process(["--help"], log)
    assert tail(log, 0) == ""


def test_the_end_of_a_long_log_is_read_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("earl.experiments.sweeps.sweep.LARGEST_TAIL", 40)
    (tmp_path / "log.txt").write_text("$ earl\n" + "line\n" * 1000 + "earl: what was wrong\n")
    assert tail(tmp_path / "log.txt", 0) == "what was wrong"
    assert tail(tmp_path / "none", 0) == ""


def test_what_is_appended_comes_behind_what_is_there(tmp_path):
    for text in (b"1", b"2"):
        with open_to_append(tmp_path / "a") as file:
            file.write(text)
    assert (tmp_path / "a").read_bytes() == b"12"


# ---- the one function that reads


def test_a_missing_file_is_none_and_an_empty_one_is_not(tmp_path):
    (tmp_path / "empty").touch()
    assert read_bounded(tmp_path / "empty", 10) == b""
    assert read_bounded(tmp_path / "none", 10) is None
    assert read_bounded(tmp_path / "none", 10, follow=True) is None


def test_a_link_is_followed_where_a_user_has_named_it(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "link").symlink_to("a")
    assert read_bounded(tmp_path / "link", 10, follow=True) == b"text"
    (tmp_path / "pipe").symlink_to("real-pipe")
    os.mkfifo(tmp_path / "real-pipe")
    with pytest.raises(EarlError, match="not a regular file but a pipe"):
        read_bounded(tmp_path / "pipe", 10, follow=True)
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(EarlError, match="circle cannot be read"):
        read_bounded(tmp_path / "circle", 10, follow=True)


def test_a_file_that_grows_while_it_is_read_is_as_long_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "history.jsonl").write_bytes(b"1234")
    real = reading.open_regular

    def grown(path, limit):
        file = real(path, limit)
        size = os.fstat(file.fileno())
        monkeypatch.setattr(os, "fstat", lambda fd: size)
        with path.open("ab") as more:
            more.write(b"56")
        return file

    monkeypatch.setattr(reading, "open_regular", grown)
    assert read_bounded(tmp_path / "history.jsonl", 10) == b"1234"


def test_a_name_that_no_file_can_have_is_an_error_of_ours(tmp_path):
    with pytest.raises(EarlError):
        read_bounded(tmp_path / "a\0b", 10)
    with pytest.raises(EarlError, match="File name too long"):
        read_bounded(tmp_path / ("x" * 300), 10)


def test_a_history_that_is_not_there_is_empty(tmp_path):
    assert read_history(tmp_path / "history.jsonl") == []
