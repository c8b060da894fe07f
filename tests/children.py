"""Child processes that import nothing: forks of a process that has imported everything.

A new Python needs seconds until torch is there. A fork is as much a process of its own, with its
own arguments, folder, environment, output and exit code.
"""

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

IMPORTED = ("earl.cli.app", "earl.experiments.contract", "earl.experiments.runs.directory")
IMPORTED += ("earl.estimator", "earl.service.http.server")  # which crash tests begin with
IMPORTED += ("torch._dynamo",)  # which ONNX and tensors of odd kinds ask for
# The environment of commands whose output is looked at
ENV = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "LINES": "40", "NO_COLOR": "1"}


class Children:
    """The process that is forked; warnings are errors in it and in its children."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self.running = False

    def run(
        self, *words: str, cwd: Path, env: Mapping[str, str] = os.environ, forks: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        """Carry out `python <words>`, with -m or -c, in a fork; return how it ended.

        With `forks`, what it starts as `python -m` are forks of it, which import nothing either.
        """
        with TemporaryDirectory() as place:
            files = [Path(place, name) for name in ("out", "err")]
            self.start(*words, cwd=cwd, env=env, out=files[0], err=files[1], forks=forks)
            code = self.wait()
            said = (file.read_text(encoding="utf-8") for file in files)
            return subprocess.CompletedProcess(words, code, *said)

    def start(
        self,
        *words: str,
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
        forks: bool = False,
    ) -> int:
        """Begin `python <words>`, which prints to files or terminals; return its process id."""
        assert self.process.stdin is not None
        assert not self.running, "wait for the last child first: one runs at a time"
        self.running = True
        files = [str(out), str(err)]
        order = {"words": words, "cwd": str(cwd), "env": dict(env), "files": files, "forks": forks}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def wait(self) -> int:
        """Wait until what was started has ended; return its exit code."""
        code = self._answer()
        self.running = False
        return code

    def _answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()  # the end of its input is its end


def serve() -> None:
    """Fork for every line of standard input; answer with the process id, then the exit code."""
    for name in IMPORTED:
        with suppress(ModuleNotFoundError):  # services need packages of their own
            importlib.import_module(name)
    gc.freeze()  # no child looks through it for garbage, and copies its pages
    for line in sys.stdin:
        order = json.loads(line)
        opened = [os.open(file, os.O_RDWR | os.O_CREAT) for file in (os.devnull, *order["files"])]
        child = os.fork()
        if child == 0:
            live(order["words"], order["cwd"], order["env"], opened, order["forks"])
        for one in opened:  # what it prints to ends when it ends
            os.close(one)
        answer(child)
        _, status = os.waitpid(child, 0)
        answer(os.waitstatus_to_exitcode(status))


def answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def live(
    words: Sequence[str], cwd: str, env: Mapping[str, str], opened: Sequence[int], forks: bool
) -> None:
    """Be the process `python <words>` until its end."""
    os.chdir(cwd)
    for number, file in enumerate(opened):
        os.dup2(file, number)
        os.close(file)
    if forks:
        subprocess.Popen = Forked  # type: ignore[misc]
    be(words, env)


class Forked(subprocess.Popen):  # type: ignore[type-arg]
    """A process that is a fork if it is to be `python -m`."""

    def __init__(self, args: Sequence[str], **given: Any) -> None:
        if [*args[:2]] == [sys.executable, "-m"]:
            given["preexec_fn"] = partial(begin, args[1:], given.get("env") or os.environ)
        super().__init__(args, **given)


def begin(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Be `python <words>` in the place of what would be executed now."""
    os.closerange(3, 1024)  # one of them tells, when it is closed, that the process has begun
    be(words, dict(env))


def be(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Execute `python <words>`, and end."""
    os.environ.clear()
    os.environ.update(env)
    code = 0
    try:
        execute(*words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def execute(kind: str, what: str, *arguments: str) -> None:
    sys.argv = [kind, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), vars(main))


if __name__ == "__main__":
    serve()
