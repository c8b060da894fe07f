"""Processes that decode beside this one: what they do, fail to do, and leave behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.format import open_memmap

from datasets_trees import save
from earl.data import decode as images
from earl.data.decoders import Decoders, Decoding, ask
from earl.data.parts import FilePart, ParquetPart
from earl.errors import InvalidInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for n in range(4):
        save(tmp_path / f"{n}.png", (16, 16), seed=n)
    (tmp_path / "2.png").write_bytes(b"no image")
    return tmp_path


def target(folder: Path, rows: int) -> str:
    path = str(folder / "images.npy")
    open_memmap(path, mode="w+", dtype=np.uint8, shape=(rows, 3, 16, 16)).flush()
    return path


def decoding(folder: Path, start: int = 0) -> Decoding:
    part = FilePart(str(folder), tuple(f"{n}.png" for n in range(4)))
    return Decoding(part, target(folder, start + 4), start)


def assert_done(folder: Path, broken: dict[int, str], start: int = 0) -> None:
    found = np.load(folder / "images.npy")
    assert list(broken) == [2] and "no image" in broken[2]
    for n in (0, 1, 3):
        assert (found[start + n] == images.decode((folder / f"{n}.png").read_bytes(), 16)).all()
    assert not found[:start].any() and not found[start + 2].any()


def test_another_process_writes_the_rows_and_tells_what_is_broken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilePart, "decode", lambda *_: pytest.fail("it was done here"))
    with Decoders(1) as decoders:
        broken = decoders.submit(decoding(folder, start=3)).result()
    assert_done(folder, broken, start=3)


def test_a_job_that_a_process_does_not_know_is_done_here() -> None:
    with Decoders(1) as decoders:
        assert decoders.submit(lambda: {os.getpid(): "here"}).result() == {os.getpid(): "here"}


def test_what_a_dead_process_leaves_is_done_here(folder: Path) -> None:
    with Decoders(2) as decoders:
        for process in decoders._all:
            process.kill()
            process.wait()
        job = decoding(folder)
        for done in [decoders.submit(job) for _ in range(3)]:
            assert_done(folder, done.result())


def test_an_answer_that_breaks_off_is_no_answer(folder: Path) -> None:
    command = [sys.executable, "-c", "input(); print('{\"1\": \"no', end='')"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]
        assert ask(process, decoding(folder)) is None


def test_a_job_that_fails_tells_its_own_error_and_the_process_goes_on(folder: Path) -> None:
    gone = ParquetPart(str(folder / "gone.parquet"), 0, "image", (0,), False)
    with Decoders(1) as decoders:
        with pytest.raises(InvalidInput, match=r"gone\.parquet is not a parquet file"):
            decoders.submit(Decoding(gone, target(folder, 1), 0)).result()
        broken = ask(decoders._all[0], decoding(folder))
    assert broken is not None
    assert_done(folder, broken)


def test_names_that_are_no_unicode_reach_a_process(folder: Path) -> None:
    name = os.fsdecode(b"\xff\n.png")
    try:
        (folder / "0.png").rename(folder / name)
    except OSError:
        pytest.skip("this file system takes no such names")
    with Decoders(1) as decoders:
        part = FilePart(str(folder), (name,))
        assert ask(decoders._all[0], Decoding(part, target(folder, 1), 0)) == {}


def test_leaving_does_not_wait_for_work_that_nobody_wants_any_more(folder: Path) -> None:
    many = FilePart(str(folder), ("0.png",) * 300_000)
    with pytest.raises(KeyboardInterrupt), Decoders(1) as decoders:
        job = decoders.submit(Decoding(many, target(folder, len(many)), 0))
        while not np.load(folder / "images.npy", mmap_mode="r")[0].any():
            time.sleep(0.01)  # until it has begun
        before = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - before < 5  # the work would take a quarter of a minute
    assert job.done() and all(process.poll() is not None for process in decoders._all)


SCRIPT = """
import sys
from pathlib import Path
from earl.data.sets import folder
from earl.data import prepare
from earl.data.source import Source

root = Path(sys.argv[1])
with (root / "started").open("a") as file:
    file.write("started\\n")
prepare.WORTH_PROCESSES = 1
data = folder.load(Source(root=root, cache=root / "cache", path=str(root / "photos"), workers=3))
print(len(data.train) + len(data.test))
"""


def test_a_script_without_a_guard_is_run_once(tmp_path: Path) -> None:
    for n in range(10):
        save(tmp_path / "photos" / "ab"[n % 2] / f"{n}.png", (32, 32), seed=n)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-W", "error", str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "10\n", "")
    assert (tmp_path / "started").read_text() == "started\n"
