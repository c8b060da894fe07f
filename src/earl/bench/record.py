"""The record of benchmarks: a line per full run, with the commit and the machine."""

import json
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import earl
from earl.bench.measured import Measured
from earl.experiments.machine import workers
from earl.storage import wall_clock

Rows = Sequence[tuple[str, Measured]]


def summary(found: Rows, quick: bool, seconds: float, at: str) -> dict[str, Any]:
    """Return a benchmark, begun at a commit, as one JSON object."""
    return {
        "date": wall_clock.now().strftime("%Y-%m-%d"),
        "earl": earl.__version__,
        "commit": at,
        "machine": machine(),
        "quick": quick,
        "seconds": round(seconds),
        "ok": all(one.ok for _, one in found),
        "figures": [{"row": row, **one.as_dict()} for row, one in found],
    }


def machine() -> dict[str, Any]:
    """Return what the numbers depend on, and nothing that names the machine."""
    return {
        "cpu": processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": workers(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def processor() -> str:
    """Return the model of the processor, as far as the system tells."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def commit() -> str:
    """Return the commit of this checkout, with a + if files were changed; "" without a checkout."""
    root = checkout()
    if root is None:
        return ""
    described = git(root, "rev-parse", "--short", "HEAD")
    return described + ("+" if described and git(root, "status", "--porcelain") else "")


def git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
        )
    except OSError:  # there is no git
        return ""
    return done.stdout.strip()


def checkout() -> Path | None:
    """Return the folder of the checkout that this package is in, or None if it was installed."""
    root = Path(earl.__file__).parents[2]
    return root if (root / ".git").exists() and (root / "pyproject.toml").exists() else None


def history_file() -> Path | None:
    """Return where full runs are remembered: in the checkout, if this is one."""
    root = checkout()
    return None if root is None else root / "benchmarks" / "history.jsonl"


def remember(result: dict[str, Any], file: Path) -> None:
    """Add a benchmark to the history: one line, numbers by row and case."""
    values = {f"{f['row']}: {f['case']}": float(f"{f['value']:.4g}") for f in result["figures"]}
    line = {k: result[k] for k in ("date", "earl", "commit", "machine", "seconds", "ok")}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line | {"figures": values}, ensure_ascii=False) + "\n")
