"""A run by several ranks, started by `torchrun`: they meet, and a lost one is explained."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from torch.distributed import DistError, PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from earl.errors import EarlError
from earl.experiments.machine import usable_device
from earl.nn.ranks import ALONE, Alone, Ranks


def join(device: str, timeout: float) -> Alone:
    """Meet the other ranks that `torchrun` has started; without others this process is alone."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["WORLD_SIZE"] == "1":
        return ALONE
    store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
    # When torchrun begins again it keeps its store, with the addresses of processes that are dead.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Ranks(
        PrefixStore(f"attempt {attempt}", store),
        rank,
        size,
        local_rank=int(os.environ["LOCAL_RANK"]),
        device=usable_device(device),
        timeout=timeout,
    )


@contextmanager
def explain_lost_rank() -> Iterator[None]:
    """Within this context the loss of another rank is an EarlError that says how to go on."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, DistError) or "gloo" in str(error).lower()):
            raise
        why = re.sub(r"^\[\S+\] ", "", str(error).splitlines()[0])
        raise EarlError(
            f"another rank is lost ({why.partition('. ')[0]}); with "
            "torchrun --max-restarts N the run goes on from its last snapshot by itself"
        ) from error
