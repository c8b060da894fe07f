"""One function reads the wall clock; whatever else needs the time asks it, and no duration does."""

import ast
from pathlib import Path

import pytest

import earl

READERS = {"time": {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime"}}
READERS |= {"datetime": {"now", "utcnow", "today"}, "date": {"today"}}
PRETENDED = {"crashtest/clock.py"}  # a clock that jumps, which stands in for the real one


def reads(source: str) -> list[str]:
    """Return what in a source file reads the wall clock, or imports what does."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value).split(".")[-1]
            if node.attr in READERS.get(owner, ()):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [alias.name for alias in node.names if alias.name in READERS["time"]]
    return found


def test_one_function_reads_the_wall_clock() -> None:
    package = Path(earl.__file__).parent
    readers = {
        path.relative_to(package).as_posix(): found
        for path in package.rglob("*.py")
        if (found := reads(path.read_text(encoding="utf-8")))
    }
    assert {name: found for name, found in readers.items() if name not in PRETENDED} == {
        "storage/wall_clock.py": ["datetime.now"]
    }


@pytest.mark.parametrize(
    "source",
    [
        *("time.time()", "from time import time", "datetime.now(UTC)", "datetime.datetime.now()"),
        *("date.today()", "time.strftime('%Y')", "clock = time.time_ns", "datetime.date.today()"),
    ],
)
def test_the_scan_sees_each_reading(source: str) -> None:
    assert reads(source)
    assert not reads("time.monotonic(); from time import sleep; moment.now(); time.thread_time()")
