"""How a command ends: its exit code, and one line about what went wrong."""

import os
import sys
from contextlib import suppress
from typing import Any

import typer

from earl.cli.failures import explained
from earl.cli.text import complain
from earl.errors import DamagedRun, DirectoryInUse, EarlError, SnapshotError
from earl.storage.files import naming
from earl.storage.printable import printable

EXIT = {
    DirectoryInUse: 73,
    SnapshotError: 65,
    DamagedRun: 65,
}  # all other errors: 1; a wrong command line: 2
STOPPED = 130
Usage: Any = typer.BadParameter.__base__  # the parser's error, wherever this typer keeps it
NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory")  # as torch says it


def outcome(app: typer.Typer, words: list[str]) -> int:
    """Carry out a command line and return its exit code; an error is one line on stderr."""
    open_missing()
    try:
        code = invoke(app, words)
        with naming("standard output"):
            sys.stdout.flush()
        return code
    except Usage as error:
        return refuse(error)
    except EarlError as error:
        code = next((code for kind, code in EXIT.items() if isinstance(error, kind)), 1)
        return fail(str(error), code)
    except BrokenPipeError:  # whoever read our output has what they wanted: `earl list | head -1`
        return 1
    except OSError as error:
        return fail(str(explained(error)))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(text in str(error) for text in NO_MEMORY):
            raise
        return fail("memory is short; a smaller batch_size, memory_size or width takes less")
    except KeyboardInterrupt:
        return fail("stopped", STOPPED)
    finally:
        silence_what_is_lost()


def invoke(app: typer.Typer, words: list[str]) -> int:
    """Carry out a command; errors, and Ctrl-C, come as they are, unlike with typer's own `main`."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("earl", words) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


def refuse(error: Any) -> int:
    """Say in one line what is wrong with a command line; for a group alone, show its help."""
    said = error.format_message()
    if error.ctx is not None and said == error.ctx.get_help():
        complain(said)
        return int(error.exit_code)
    path = "earl" if error.ctx is None else error.ctx.command_path
    line = " ".join(said.split()).rstrip(" .")
    return fail(f"{line}; see: {path} --help", int(error.exit_code))


def fail(text: str, code: int = 1) -> int:
    """Say in one line what went wrong; return the exit code."""
    with suppress(OSError):  # nobody can be told; the exit code still says it
        complain("earl: " + printable(text))
    return code


def open_missing() -> None:
    """Open a standard stream that was closed, so that it discards what is written.

    Python has None in its place, and a file that we open would take its number: what a library
    prints would then go into that file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def silence_what_is_lost() -> None:
    """Discard what standard streams can no longer take: Python flushes them when it ends.

    A reader may have gone, or a disk may be full; that was reported before, or need not be.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
