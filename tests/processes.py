"""Which processes there are, for tests that end some of them."""

from pathlib import Path


def below(process: int) -> list[int]:
    """Return the processes that a process has started and that have not ended."""
    every = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in every if parent(pid) == process]


def parent(process: int) -> int | None:
    """Return the process that has started another one; None if that has ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])
