"""A program that calculates with bfloat16 as networks here do, and ends without an error.

`earl.nn.onednn` starts it as a process of its own, since a processor may not survive it.
"""

import sys

import torch
from torch import nn


def main() -> None:
    """Multiply two matrices, then pass a batch through a small network and back."""
    leave_no_core()
    torch.set_num_threads(1)
    network = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(64, 64, 1, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 64),
    )
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.ones(8, 3, 16, 16)
    network(x)  # in float32, so that oneDNN names its instruction set in any case
    a = torch.ones(64, 64, dtype=torch.bfloat16)
    if not bool((a @ a == 64).all()):
        sys.exit("a product of bfloat16 matrices is wrong")
    with torch.autocast("cpu", torch.bfloat16):
        out = network(x)
    out.float().square().mean().backward()


def leave_no_core() -> None:
    """Let the system write no image of this process should it die."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
