"""Run by torchrun: every rank trains methods alone and together, and compares, in float64.

Where torchrun itself is not the question, forks of one process are ranks as well.
"""

import importlib
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed import TCPStore
from torch.testing import assert_close as close

from earl.cli import app as command_line
from earl.errors import EarlError
from earl.experiments.catalogue import METHODS
from earl.experiments.experiment import Experiment
from earl.experiments.learners import learner_without_data
from earl.experiments.matching import random_images
from earl.experiments.torchrun import join
from earl.learning.learner import Learner
from earl.methods.memo import MEMO
from earl.nn.ranks import ALONE, Alone, Ranks
from earl.storage.state import digest, flatten
from small_networks import DIVIDED

SHAPE, CLASSES, SAMPLES = (3, 8, 8), 4, 32


def taught(method: str, ranks: Alone, frozen: bool = False) -> Learner:
    """Return a learner after some samples; seven of a batch do not divide by two, nor by three."""
    settings = {"memory_size": 20, "batch_size": 7, "lr": 0.01, **DIVIDED}
    settings |= {"d": 2} if method == "earl" else {}  # the fourth class makes its frame grow
    experiment = Experiment(method=method, dataset="shapes", stream="disjoint", settings=settings)
    learner = learner_without_data(experiment, SHAPE, SAMPLES)
    object.__setattr__(learner.setting, "ranks", ranks)
    if frozen:
        assert isinstance(learner, MEMO)
        learner.network.extractors.requires_grad_(False)  # until the boundary
    x, y = random_images(SHAPE, CLASSES, SAMPLES)
    y = y.sort().values
    for step in range(SAMPLES):
        learner.observe(x[step : step + 1], y[step : step + 1])
        if step == SAMPLES // 2:
            learner.end_task()
    learner.finish()
    return learner


def compare(method: str, ranks: Ranks, frozen: bool = False) -> None:
    """Raise unless ranks learn what one process learns, each of them the same bits."""
    alone, together = (flatten(taught(method, r, frozen).state_dict())[0] for r in (ALONE, ranks))
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        close(together[name], value, rtol=1e-9, atol=1e-9, equal_nan=True, msg=name)
    own = digest(together)
    assert ranks.share(own) == own, f"{method}: the ranks differ"


def check_drift_is_noticed(ranks: Ranks) -> None:
    network = nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.fill_(1.0)
        network.bias.fill_(0.0)
        ranks.check_equal([network])
        network.weight[0, 0] += 1e-12 * ranks.rank
    try:
        ranks.check_equal([network])
    except EarlError:
        return
    raise AssertionError("ranks with different weights were taken for equal")


class Rotten(Alone):
    """Ranks of which one, and no other, finds infinity in what comes of some batches."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks, self.passes = ranks, 0

    def forward(self, network: nn.Module, x: Tensor) -> Tensor:
        self.passes += 1
        out = self.ranks.forward(network, x)
        bad = self.ranks.rank == 1 and self.passes % 5 == 0
        return out * float("inf") if bad else out


def check_that_all_undo_the_same_steps(ranks: Ranks) -> None:
    for method in ("er", "memo"):
        learner = taught(method, Rotten(ranks))
        assert learner.work.progress.skipped_steps == learner.work.updates // 5, method
        own = digest(learner.state_dict())
        assert ranks.share(own) == own, f"{method}: the ranks undo different steps"


def check_that_no_threads_are_left(ranks: Ranks) -> None:
    """Those of a group, if they are alive when Python ends, abort the process now and then."""
    learner = taught("er", ranks)  # which lives on
    assert any("gloo" in name for name in threads())
    ranks.leave()
    assert not any("gloo" in name for name in threads()) and learner.work.updates


def threads() -> list[str]:
    return [task.read_text() for task in Path("/proc/self/task").glob("*/comm")]


def main(*methods: str) -> None:
    torch.set_default_dtype(torch.float64)
    ranks = join("cpu", timeout=60)
    assert ranks is not None
    for method in methods or METHODS.names():
        compare(method, ranks)
        if ranks.first:
            sys.stdout.write(f"{method} agrees\n")
    compare("memo", ranks, frozen=True)  # nothing in what passes images learns
    check_drift_is_noticed(ranks)
    check_that_all_undo_the_same_steps(ranks)
    check_that_no_threads_are_left(ranks)


def earl(*words: str) -> None:
    """Carry out a command as one of the ranks."""
    sys.argv = ["earl", *words]
    command_line.main()


def fork_ranks(size: int, act: Callable[..., None]) -> None:
    """Have forks of this process act as ranks; exit with as many as have failed, or were stopped.

    As torchrun does, it passes a signal on.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        importlib.import_module("torch.distributed.optim")  # once, as every rank would
    with socket.create_server(("127.0.0.1", 0)) as listening:
        os.environ |= {"TORCHELASTIC_RUN_ID": "forks", "TORCHELASTIC_USE_AGENT_STORE": "True"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(listening.getsockname()[1])}
        forks = [fork_rank(rank, size, act) for rank in range(size)]
        signal.signal(signal.SIGTERM, lambda number, _: [os.kill(pid, number) for pid in forks])
        store = TCPStore(  # as torchrun's is: none of the ranks keeps it
            "127.0.0.1",
            listening.getsockname()[1],
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=os.dup(listening.fileno()),
            timeout=timedelta(seconds=60),
        )
        ends = [os.waitpid(pid, 0)[1] for pid in forks]
        del store
    sys.exit(sum(end != 0 for end in ends))


def fork_rank(rank: int, size: int, act: Callable[..., None]) -> int:
    pid = os.fork()
    if pid == 0:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        code = 1
        try:
            act(*sys.argv[1:])
            code = 0
        except SystemExit as end:
            code = int(bool(end.code))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return pid


if __name__ == "__main__":
    main(*sys.argv[1:])
