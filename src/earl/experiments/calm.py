"""Threads that wait for each other: asleep instead of spinning."""

from collections.abc import Mapping, MutableMapping

# Read when torch loads these libraries: GNU's and LLVM's OpenMP, and Intel's, in milliseconds.
CALM: Mapping[str, str] = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}


def calm_idle_threads(environment: MutableMapping[str, str]) -> None:
    """Let threads that wait sleep, in processes with this environment, unless it says otherwise.

    By themselves they spin, and beside other busy processes that takes longer than all the work.
    """
    for name, value in CALM.items():
        environment.setdefault(name, value)
