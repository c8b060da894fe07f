import errno
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from earl.errors import DirectoryInUse
from earl.storage import files as durable
from earl.storage import reading
from fresh import python

CALLS = ("open", "write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "close")


@pytest.fixture
def calls(monkeypatch):
    """Record (operation, name of the file) of what changes the disk, in order."""
    log: list[tuple[str, str]] = []
    names: dict[int, str] = {}

    def recorder(name):
        real = getattr(os, name)

        def call(target, *args, **kwargs):
            shown = names.get(target) if isinstance(target, int) else Path(target).name
            log.append((name, shown))
            result = real(target, *args, **kwargs)
            if name == "open":
                names[result] = shown
            return result

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, recorder(name))
    return log


def failing(monkeypatch, name, error, after=0):
    """Let the call number `after` of `os.name`, and every later one, fail."""
    real, count = getattr(os, name), iter(range(10**9))

    def call(*args, **kwargs):
        if next(count) >= after:
            raise OSError(error, os.strerror(error))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, call)


def test_a_file_is_flushed_before_it_is_closed(tmp_path, calls):
    durable.write_file(tmp_path / "a", b"text")
    assert calls == [("open", "a"), ("write", "a"), ("fsync", "a"), ("close", "a")]
    assert (tmp_path / "a").read_bytes() == b"text"


def test_a_new_file_is_private(tmp_path):
    durable.write_file(tmp_path / "a", b"")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_file_is_never_overwritten(tmp_path):
    durable.write_file(tmp_path / "a", b"old")
    with pytest.raises(FileExistsError):
        durable.write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_short_writes_are_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    durable.write_file(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_replacing_a_text_is_flush_then_rename_then_flush(tmp_path, calls):
    durable.replace_text(tmp_path / "a", "text ü")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "text ü"
    order = [call for call in calls if call[0] in ("write", "fsync", "rename", "replace")]
    new = ".a.new"
    assert order == [("write", new), ("fsync", new), ("replace", new), ("fsync", tmp_path.name)]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_failed_replacement_leaves_the_old_text_alone(tmp_path, monkeypatch, call):
    durable.replace_text(tmp_path / "a", "old")
    with monkeypatch.context() as patch:
        failing(patch, call, errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            durable.replace_text(tmp_path / "a", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_what_a_kill_left_does_not_stop_a_replacement(tmp_path):
    (tmp_path / ".a.new").write_text("half")
    durable.replace_text(tmp_path / "a", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_directory_gets_its_name_after_its_files_are_on_the_disk(tmp_path, calls):
    durable.write_dir_atomically(tmp_path / "d", {"x": b"1", "y": b"2"})
    order = [call for call in calls if call[0] in ("write", "fsync", "rename")]
    files = [("write", "x"), ("fsync", "x"), ("write", "y"), ("fsync", "y")]
    assert order == [*files, ("fsync", ".tmp-d"), ("rename", ".tmp-d"), ("fsync", tmp_path.name)]
    assert {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()} == {
        "x": b"1",
        "y": b"2",
    }


@pytest.mark.parametrize("kind", ["full", "empty", "file", "link", "dangling"])
def test_nothing_is_overwritten_by_a_directory(tmp_path, kind):
    final = tmp_path / "d"
    if kind == "file":
        final.touch()
    elif kind in ("link", "dangling"):
        final.symlink_to(tmp_path if kind == "link" else "nowhere")
    else:
        final.mkdir()
        if kind == "full":
            (final / "x").touch()
    with pytest.raises(FileExistsError, match="never overwritten"):
        durable.write_dir_atomically(final, {"x": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", ".", ""])
def test_only_plain_names_go_into_a_directory(tmp_path, name):
    with pytest.raises(ValueError, match="not a plain file name"):
        durable.write_dir_atomically(tmp_path / "d", {name: b""})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "after"), [("write", 1), ("fsync", 0), ("fsync", 2), ("rename", 0)]
)
def test_a_failed_directory_leaves_nothing_behind(tmp_path, monkeypatch, call, after):
    with monkeypatch.context() as patch:
        failing(patch, call, errno.ENOSPC, after)
        with pytest.raises(OSError, match="No space"):
            durable.write_dir_atomically(tmp_path / "d", {"x": b"1", "y": b"2"})
    assert not list(tmp_path.iterdir())


def test_a_failed_flush_is_not_tried_again(tmp_path, monkeypatch):
    flushed = []

    def fail(fd):
        flushed.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        durable.write_dir_atomically(tmp_path / "d", {"x": b"1", "y": b"2"})
    assert len(flushed) == 1


def test_parents_are_made_and_flushed_from_the_top(tmp_path, calls):
    durable.make_directory(tmp_path / "a" / "b")
    order = [call for call in calls if call[0] in ("mkdir", "fsync")]
    assert order == [("mkdir", "a"), ("fsync", tmp_path.name), ("mkdir", "b"), ("fsync", "a")]
    durable.make_directory(tmp_path / "a" / "b")


def test_remove_takes_the_link_and_leaves_the_target(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").touch()
    (tmp_path / "link").symlink_to("kept")
    for name in ("link", "nothing"):
        durable.remove(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "x"]
    durable.remove(tmp_path / "kept")
    assert not list(tmp_path.iterdir())


def test_what_is_set_aside_overwrites_nothing(tmp_path):
    names = []
    for text in "123":
        (tmp_path / "d").write_text(text)
        names.append(durable.set_aside(tmp_path / "d").name)
    assert names == ["bad-d", "bad-d-2", "bad-d-3"]
    assert [(tmp_path / name).read_text() for name in names] == ["1", "2", "3"]


def test_a_directory_that_may_not_be_listed_is_not_empty(tmp_path, monkeypatch):
    assert durable.entries(tmp_path / "missing", "") == []
    failing(monkeypatch, "listdir", errno.EACCES)
    failing(monkeypatch, "scandir", errno.EACCES)
    with pytest.raises(PermissionError):
        durable.entries(tmp_path, "")


def test_reading_takes_up_to_the_limit_and_no_more(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert reading.read_regular(tmp_path / "a", 5) == b"12345"
    with pytest.raises(ValueError, match="5 bytes, more than 4"):
        reading.read_regular(tmp_path / "a", 4)


@pytest.mark.parametrize("kind", ["link", "directory", "pipe", "socket", "device"])
def test_reading_takes_regular_files_only_and_never_waits(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = Path("/dev/zero") if kind == "device" else Path("odd")
    with socket.socket(socket.AF_UNIX) as end:
        if kind == "link":
            Path("target").write_bytes(b"1")
            path.symlink_to("target")
        elif kind == "directory":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            end.bind(str(path))
        with pytest.raises(ValueError, match="not a regular file"):
            reading.read_regular(path, 100)


def test_a_link_put_in_place_after_the_check_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "target").write_bytes(b"secret")
    (tmp_path / "a").symlink_to("target")
    monkeypatch.setattr(Path, "lstat", Path.stat)  # the check saw a file
    with pytest.raises(OSError, match="symbolic link"):
        reading.read_regular(tmp_path / "a", 100)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"12345")
    size = os.stat_result([0o100600, 0, 0, 1, 0, 0, 4, 0, 0, 0])
    monkeypatch.setattr(os, "fstat", lambda fd: size)
    with pytest.raises(ValueError, match="changed while"):
        reading.read_regular(tmp_path / "a", 100)


HOLD = """
import os, sys, time
from pathlib import Path
from earl.storage.files import lock_directory
with lock_directory(Path(sys.argv[1])):
    if not os.fork():  # as a data loader does
        print(os.getpid(), flush=True)
    time.sleep(100)
"""


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        worker = int(first.stdout.readline())
        try:
            with pytest.raises(DirectoryInUse, match="in use") as refusal:
                durable.lock_directory(tmp_path).__enter__()
            assert str(tmp_path) in str(refusal.value)
            assert "\n" not in str(refusal.value)
            first.send_signal(signal.SIGKILL)
            first.wait()
            os.kill(worker, 0)  # alive, yet it does not keep the lock
            with durable.lock_directory(tmp_path):
                pass
        finally:
            first.kill()
            os.kill(worker, signal.SIGKILL)
    assert [path.name for path in tmp_path.iterdir()] == ["LOCK"]


def test_a_lock_is_free_after_the_block_and_after_an_error(tmp_path):
    held = set(durable._held)
    for _ in range(2):
        with pytest.raises(KeyError), durable.lock_directory(tmp_path / "new"):
            with pytest.raises(DirectoryInUse), durable.lock_directory(tmp_path / "new"):
                pass
            raise KeyError
    assert durable._held == held


def test_a_lock_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "LOCK").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic link"), durable.lock_directory(tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_module_works_without_fcntl(tmp_path):
    code = """
import sys
sys.modules["fcntl"] = None
from pathlib import Path
from earl.storage.files import lock_directory
with lock_directory(Path(sys.argv[1])):
    pass
"""
    python(code, str(tmp_path))
