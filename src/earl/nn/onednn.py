"""oneDNN, which calculates for torch on CPUs: its instruction set, and whether it takes bfloat16.

Some virtual machines announce instructions (AMX) that their hypervisor forbids. There the first
product of bfloat16 numbers ends the process by SIGILL, unless oneDNN is told not to use them. So
bfloat16 is tried in a child process before anything here relies on it.
"""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from earl.errors import InvalidSetting

VARIABLE = "ONEDNN_MAX_CPU_ISA"  # oneDNN reads it once, when it is first used in a process
OLD_VARIABLE = "DNNL_MAX_CPU_ISA"  # oneDNN reads this one if the other is not set
DEFAULT = "DEFAULT"  # no limit but the processor
WITHOUT_AMX = "AVX512_CORE_BF16"  # the last instruction set before AMX
TRIAL = Path(__file__).with_name("bfloat16_trial.py")
PATIENCE = 300.0  # seconds; a busy machine takes long to import torch


@dataclass(frozen=True)
class Outcome:
    """What became of a child process that tried bfloat16."""

    death: str  # the signal or error that ended it; "" if all went well
    instructions: str  # the instruction set that oneDNN said it uses


def limit() -> str:
    """Return the instruction set that the environment limits oneDNN to."""
    said = os.environ.get(VARIABLE) or os.environ.get(OLD_VARIABLE) or DEFAULT
    return said.upper()  # oneDNN does not mind the case either


@cache
def tried(limit: str) -> Outcome:
    """Return what bfloat16 does to a child process with that limit on this CPU; tried once."""
    environment = os.environ | {VARIABLE: limit, "ONEDNN_VERBOSE": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(TRIAL)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Outcome(str(error), "unknown")
    named = re.search(r"^onednn_verbose,.*\binfo,cpu,isa:(.+)$", done.stdout, re.MULTILINE)
    return Outcome(death(done), named[1].strip() if named else "unknown")


def death(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the signal that ended a process, else the last line it complained with."""
    if done.returncode >= 0:
        code = f"exit code {done.returncode}" if done.returncode else ""
        return code and next(reversed(done.stderr.strip().splitlines()), code)
    known = {number.value: number.name for number in signal.Signals}
    return known.get(-done.returncode, f"signal {-done.returncode}")


def require_bfloat16() -> None:
    """Raise unless processes with this environment survive bfloat16 on this CPU."""
    now = tried(limit())
    if not now.death:
        return
    if tried(WITHOUT_AMX).death:
        raise InvalidSetting(
            f"precision = 'bfloat16' does not work on this CPU: a process that tried it ended by "
            f"{now.death}, and with {VARIABLE}={WITHOUT_AMX} too; use precision=float32, or a GPU"
        )
    raise InvalidSetting(
        f"precision = 'bfloat16' would end this process by {now.death}: on this CPU it needs "
        f"{VARIABLE}={WITHOUT_AMX} in the environment before Python starts (earl run sets it)"
    )


def limit_for_bfloat16() -> list[str]:
    """Limit oneDNN if bfloat16 needs that on this CPU; return notes for the user.

    It must be called before oneDNN is first used in the process: the variable is read only once.
    """
    now = tried(limit())
    if not now.death or tried(WITHOUT_AMX).death:
        return []
    os.environ[VARIABLE] = WITHOUT_AMX
    return [
        f"{VARIABLE}={WITHOUT_AMX} was set: without it a process that tried bfloat16 on this CPU "
        f"ended by {now.death}"
    ]


def about_bfloat16() -> str:
    """Say whether bfloat16 works on this CPU."""
    now, limited = tried(limit()), f"{VARIABLE}={WITHOUT_AMX}"
    if not now.death:
        return f"works on this CPU; oneDNN uses {now.instructions}"
    if not tried(WITHOUT_AMX).death:
        return f"works on this CPU with {limited} only, which earl run sets; else {now.death}"
    return f"precision=bfloat16 does not work on this CPU: {now.death}, and with {limited} too"
