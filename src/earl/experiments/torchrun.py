"""A run by several ranks, started by `torchrun`: the first keeps its directory, others assist."""

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta

from torch.distributed import DistError, PrefixStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from earl.data.dataset import Dataset
from earl.errors import EarlError
from earl.evaluation.loop import Moment
from earl.experiments.experiment import usable_device
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.threads import thread_count
from earl.nn.ranks import Ranks


def join(device: str, timeout: float) -> Ranks | None:
    """Meet the other ranks that `torchrun` has started; None where there are no others."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or os.environ["WORLD_SIZE"] == "1":
        return None
    store, rank, size = next(rendezvous("env://", timeout=timedelta(seconds=timeout)))
    # torchrun keeps its store when it begins again, with the addresses of processes long dead.
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
def losses_explained() -> Iterator[None]:
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


def carry_on(
    directory: RunDirectory,
    dataset: Dataset | None,
    ranks: Ranks | None,
    device: str,
    threads: int | None,
    snapshot_seconds: float,
) -> Generator[Moment]:
    """Yield the moments of a run, on every rank."""
    if ranks is None or ranks.first:
        moments = directory.run(
            device=device,
            threads=threads,
            snapshot_seconds=snapshot_seconds,
            dataset=dataset,
            ranks=ranks,
        )
    else:
        moments = assist(directory, dataset, ranks)
    try:
        yield from moments
    except GeneratorExit:  # the run is stopped, by all ranks at the same sample
        if ranks is not None:
            ranks.leave()
        raise
    if ranks is not None:
        ranks.leave()


def assist(directory: RunDirectory, dataset: Dataset | None, ranks: Ranks) -> Generator[Moment]:
    """Yield the moments of a run that the first rank keeps; this one learns with it."""
    environment = ranks.share()
    if environment is None:  # the run has ended before
        return
    with thread_count(environment["threads"]):
        built = directory.experiment.build(environment["device"], dataset, ranks)
        start, state = ranks.share()
        built.learner.load_state_dict(state)
        yield from built.learn(start)
