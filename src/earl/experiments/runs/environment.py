"""What results depend on beyond the experiment: versions, the processor, the numbers of workers."""

import platform
from collections.abc import Mapping
from typing import Any

import torch

import earl
from earl.nn import onednn
from earl.nn.precision import takes_bfloat16_on_cpu


def environment(
    device: str, threads: int, ranks: int = 1, precision: str = "float32"
) -> dict[str, Any]:
    """Return what results depend on beyond the experiment.

    Which instructions oneDNN really uses is known only where bfloat16 was tried, and matters there:
    those beyond its limit and ATen's `cpu` multiply bfloat16 numbers.
    """
    found = {
        "earl": earl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "onednn_limit": onednn.limit(),
        "device": device,
        "threads": threads,
        "ranks": ranks,
    }
    if takes_bfloat16_on_cpu(precision, device):
        found["onednn"] = onednn.tried(onednn.limit()).instructions
    return found


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say what has changed since a run began; what its record does not hold is not compared."""
    return [
        f"not exactly reproducible: {name} was {value!r} at the start and is {now.get(name)!r} now"
        for name, value in before.items()
        if now.get(name) != value
    ]
