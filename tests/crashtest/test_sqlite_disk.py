"""Calls of SQLite that go through ours reach the files that they are meant for, and no others."""

from pathlib import Path

import pytest

from children import Children

PROGRAM = """
import gc, sqlite3, sys
from pathlib import Path
from earl.crashtest.sqlite_disk import install

met = set()
if not install(lambda path, call: met.add((Path(path).name, call))):
    print("not here")
    sys.exit()
one = sqlite3.connect(sys.argv[1], isolation_level=None)
one.execute("PRAGMA journal_mode=WAL")
one.execute("CREATE TABLE t(x)")
for n in range(50):  # names that were freed would be others by now
    other = sqlite3.connect(sys.argv[1], isolation_level=None)
    garbage = [bytes([1] * size) for size in range(2000)]
    other.execute("INSERT INTO t VALUES (?)", (bytes(5000),))
    other.close()
    gc.collect()
print(*sorted({name for name, call in met}))
one.close()
"""


def test_sqlite_opens_no_file_of_another_name(children: Children, tmp_path: Path) -> None:
    state, here = tmp_path / "state", tmp_path / "here"
    state.mkdir()
    here.mkdir()
    program = PROGRAM.replace("sys.argv[1]", repr(str(state / "journal.db")))
    done = children.run("-c", program, cwd=here)
    assert done.returncode == 0, done.stderr
    if done.stdout == "not here\n":
        pytest.skip("Python has a SQLite of its own built in")
    assert all(name.startswith("journal.db") for name in done.stdout.split())
    assert list(here.iterdir()) == []
    assert {path.name for path in state.iterdir()} == {"journal.db"}
