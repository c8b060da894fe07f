"""How commands end where standard streams fail, memory is short or Ctrl-C comes early."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from earl.cli import end as cli_end
from fresh import python

Typed = Callable[..., tuple[int, str, str]]
Raising = Callable[[BaseException], None]
ROOT = Path(__file__).parents[2]
EARL = [sys.executable, "-m", "earl"]
NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def environment(unbuffered: bool) -> dict[str, str]:
    env = {name: v for name, v in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return env | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})


@pytest.mark.parametrize("words", ["list", "--version"])  # more than a buffer holds, and less
@pytest.mark.parametrize("unbuffered", [False, True])
def test_nothing_is_said_where_the_reader_has_gone(unbuffered: bool, words: str) -> None:
    with subprocess.Popen(
        [*EARL, words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(unbuffered),
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()  # as `| head -0` does
        said = process.stderr.read()
    assert (said, process.returncode) == (b"", 1)


@NEEDS_FULL
@pytest.mark.parametrize("words", ["list", "--version"])
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_full_disk_behind_standard_output_is_one_line(unbuffered: bool, words: str) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*EARL, words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(unbuffered),
            check=False,
        )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("earl: standard output: No space left on device; make room")


@NEEDS_FULL
def test_an_error_that_cannot_be_said_keeps_its_exit_code() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([*EARL, "lst"], stderr=full, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize(("closed", "words", "code"), [("1", "list", 0), ("2", "lst", 2)])
def test_a_stream_that_was_closed_leads_nowhere(closed: str, words: str, code: int) -> None:
    line = f"{' '.join(EARL)} {words} {closed}>&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


EARLY = """
import sys

class Interrupt:  # Ctrl-C while this module is being imported
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = ["earl", *{words!r}]
from earl.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("typer", ["list"]),
        ("earl.cli.report", ["list"]),
        ("earl.experiments.experiment", ["run", "--method", "er", "--dataset", "shapes"]),
        ("torch", ["run", "--method", "er", "--dataset", "shapes"]),
    ],
)
def test_ctrl_c_while_imports_go_on_is_no_traceback(
    module: str, words: list[str], tmp_path: Path
) -> None:
    code = EARLY.format(module=module, words=words)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (130, "earl: stopped\n")


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Let every command raise an error."""

    def prepare(error: BaseException) -> None:
        def invoke(app: object, words: list[str]) -> int:
            raise error

        monkeypatch.setattr(cli_end, "invoke", invoke)

    return prepare


def test_ctrl_c_within_a_command_is_one_line(raising: Raising, typed: Typed) -> None:
    raising(KeyboardInterrupt())
    assert typed("list") == (130, "", "earl: stopped\n")


def test_the_package_imports_nothing_before_ctrl_c_is_looked_after() -> None:
    """What is imported before `earl.__main__.main` is out of its reach."""
    code = (
        "import sys; old = set(sys.modules); import earl.__main__; print(*set(sys.modules) - old)"
    )
    assert set(python(code).split()) == {"earl", "earl.__main__"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"earl": "earl.__main__:main"}
    assert project["name"] == "earl-learn"  # on the package index `earl` is somebody else's


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_a_lack_of_memory_is_one_line(error: Exception, raising: Raising, typed: Typed) -> None:
    raising(error)
    code, _, said = typed("list")
    assert code == 1
    assert said.startswith("earl: memory is short; a smaller batch_size") and said.count("\n") == 1


def test_an_error_of_the_program_is_not_hidden(raising: Raising, typed: Typed) -> None:
    raising(RuntimeError("a mistake of ours"))
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        typed("list")


def test_a_group_alone_shows_its_help(typed: Typed) -> None:
    for words in ([], ["data"], ["stream"]):
        code, out, said = typed(*words)
        assert code in (0, 2) and "Commands:" in out + said  # as this typer has it


def test_nobody_is_told_to_install_what_belongs_to_somebody_else() -> None:
    old = re.compile(r"""install\s+(-\S+\s+)*["']?earl(\[|["'\s`]|$)""")
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    texts = [*pages, *(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if old.search(line)
    ]
    assert found == []
    for end, wrong in {"earl": True, '"earl[data]"': True, '"earl-learn[data]"': False}.items():
        assert bool(old.search(f"pip install {end}")) is wrong
