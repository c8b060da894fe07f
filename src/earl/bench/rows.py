"""The rows of the benchmark by name, and how they are measured."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

from earl.bench import estimators, guards, neighbours, parts, starts, steps
from earl.bench.measured import Figure
from earl.bench.timing import Effort
from earl.errors import UnknownName, suggest

Measure = Callable[[Effort], Iterator[Figure]]

ROWS: Mapping[str, Measure] = {
    "step": steps.step,
    "small": steps.small,
    "tiny": steps.tiny,
    "methods": steps.methods,
    "augment": parts.augment,
    "exam": parts.exam,
    "correction": parts.correction,
    "short": parts.short,
    "memory": parts.memory,
    "stream": steps.stream,
    "classes": steps.classes,
    "guards": guards.guards,
    "bytes": parts.held,
    "data": starts.data,
    "open": starts.opened,
    "start": starts.start,
    "neighbour": neighbours.neighbour,
    "estimator": estimators.estimator,
    "saving": estimators.saving,
    "peak": parts.peak,
}


def choose(names: list[str]) -> dict[str, Measure]:
    """Return the named rows in their order; all of them if none is named."""
    for name in names:
        if name not in ROWS:
            raise UnknownName(f"the benchmark has no row {name!r}; {suggest(name, tuple(ROWS))}")
    return {name: measure for name, measure in ROWS.items() if not names or name in names}


def measured(rows: Mapping[str, Measure], effort: Effort) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of the rows, each with the name of its row, on one thread."""
    with one_thread():
        for name, measure in rows.items():
            for figure in measure(effort):
                yield name, figure


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which torch works on one thread: ratios do not hang on who else needs a core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
