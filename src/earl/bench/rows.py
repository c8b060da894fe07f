"""The rows of the benchmark by name, and how they are measured."""

from collections.abc import Callable, Iterator, Mapping

from earl.bench import estimators, guards, neighbours, parts, serving, starts, steps
from earl.bench.measured import Measured
from earl.bench.timing import Effort
from earl.errors import UnknownName, suggest
from earl.experiments.machine import thread_count

Measure = Callable[[Effort], Iterator[Measured]]

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
    "embeddings": steps.embeddings,
    "guards": guards.guards,
    "bytes": parts.held,
    "data": starts.data,
    "open": starts.opened,
    "start": starts.start,
    "table": starts.table,
    "neighbour": neighbours.neighbour,
    "estimator": estimators.estimator,
    "eye": estimators.eye,
    "saving": estimators.saving,
    "serve": serving.serve,
    "peak": parts.peak,
}


def choose(names: list[str]) -> dict[str, Measure]:
    """Return the named rows in their order; all of them if none is named."""
    for name in names:
        if name not in ROWS:
            raise UnknownName(f"the benchmark has no row {name!r}; {suggest(name, tuple(ROWS))}")
    return {name: measure for name, measure in ROWS.items() if not names or name in names}


def measure_rows(rows: Mapping[str, Measure], effort: Effort) -> Iterator[tuple[str, Measured]]:
    """Yield what is measured in the rows, each with the name of its row, on one thread."""
    with thread_count(1):  # ratios do not depend on who else needs a core
        for name, measure in rows.items():
            for number in measure(effort):
                yield name, number
