"""Histories for other programs: one table of runs, one of evaluations, one of class counts."""

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from earl.errors import EarlError
from earl.evaluation.history import Evaluation
from earl.experiments.measuring import measured
from earl.experiments.runs.records import RunRecord

if TYPE_CHECKING:
    from pyarrow import Schema

Line: TypeAlias = dict[str, Any]
LINES_AT_ONCE = 50_000


def run_lines(runs: Iterable[RunRecord]) -> Iterator[Line]:
    """Yield one line per run: names, metrics and costs up to its last evaluation, settings."""
    for run in runs:
        history = run.history
        yield {
            "run": run.name,
            "method": run.experiment.method,
            "dataset": run.dataset,
            "stream": run.stream,
            "seed": run.experiment.seed,
            "finished": run.finished,
            "samples": run.samples,
            **(measured(history) if history else {}),
            **(history[-1].numbers if history else {}),
            "seconds": run.seconds,
            **{f"env.{name}": value for name, value in run.environment.items()},
            **run.matching,
            **{f"set.{name}": value for name, value in sorted(run.settings.items())},
        }


def evaluation_lines(runs: Iterable[RunRecord]) -> Iterator[Line]:
    """Yield one line per evaluation."""
    for run in runs:
        scalars = Scalars()
        for e in run.history:
            yield {"run": run.name, "step": e.step, "task": e.task, **scalars(e)}


def class_lines(runs: Iterable[RunRecord]) -> Iterator[Line]:
    """Yield one line per evaluation and class that it asked about; an unknown name is empty."""
    for run in runs:
        names = dict(enumerate(run.class_names))
        for e in run.history:
            for c, total in sorted(e.total.items()):
                yield {
                    "run": run.name,
                    "step": e.step,
                    "class": c,
                    "class_name": names.get(c, ""),
                    "correct": e.correct.get(c, 0),
                    "total": total,
                }


class Scalars:
    """Returns what can be plotted of each evaluation; A_AUC is the mean accuracy so far."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def __call__(self, evaluation: Evaluation) -> dict[str, float]:
        accuracy = evaluation.accuracy
        self._sum, self._count = self._sum + accuracy, self._count + 1
        return {
            "accuracy": accuracy,
            "online_accuracy": evaluation.online_correct / max(1, evaluation.online_total),
            "A_AUC": self._sum / self._count,
            "classes_seen": len(evaluation.total),
            **evaluation.numbers,
        }


TABLES: dict[str, Callable[[Iterable[RunRecord]], Iterator[Line]]] = {
    "runs": run_lines,
    "evaluations": evaluation_lines,
    "classes": class_lines,
}


def export_csv(runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Write runs.csv, evaluations.csv and classes.csv; return their paths."""
    return export(runs, folder, ".csv", write_csv)


def export_parquet(runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Write runs.parquet, evaluations.parquet and classes.parquet; return their paths."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise EarlError(
            'writing parquet files needs pyarrow; install it with: pip install "earl-learn[data]"'
        ) from None
    return export(runs, folder, ".parquet", write_parquet)


Lines: TypeAlias = Callable[[], Iterator[Line]]  # can be read more than once


def export(
    runs: Sequence[RunRecord], folder: Path, ending: str, write: Callable[[Path, Lines], None]
) -> list[Path]:
    """Write every table; each file appears, or takes the place of an older one, when complete."""
    check_names(runs)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, lines in TABLES.items():
        path = folder / f"{name}{ending}"
        new = path.with_name(f".{path.name}.new")
        try:
            write(new, lambda lines=lines: lines(runs))  # type: ignore[misc]
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        paths.append(path)
    return paths


def check_names(runs: Sequence[RunRecord]) -> None:
    """Raise if two runs would have the same name, or the same folder, in what is written."""
    seen: dict[str, RunRecord] = {}
    for run in runs:
        other = seen.setdefault(run.name, run)
        if other is not run:
            raise EarlError(
                f"{other.path} and {run.path} would both be called {run.name}; export their "
                "folders one by one, or the folder that holds both"
            )


def write_csv(path: Path, lines: Lines) -> None:
    """Write lines with all names that occur in any of them; what a line lacks stays empty."""
    names = list(next(lines(), {}))
    if not written_with(names, path, lines):  # not every line has the names of the first
        kinds = dict.fromkeys(map(tuple, lines()))
        written_with(list(dict.fromkeys(chain(*kinds))), path, lines)


def written_with(names: list[str], path: Path, lines: Lines) -> bool:
    """Write lines below these names; return False as soon as a line has another name."""
    known = {*names}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for line in lines():
            if [*line] == names:
                writer.writerow(line.values())
            elif line.keys() <= known:
                writer.writerow([line.get(name, "") for name in names])
            else:
                return False
    return True


def write_parquet(path: Path, lines: Lines) -> None:
    """Write lines with all names that occur in any of them; what a line lacks is null."""
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetWriter

    schema, rest = schema_of(lines()), lines()
    with ParquetWriter(path, schema) as writer:
        while some := list(islice(rest, LINES_AT_ONCE)):
            writer.write_batch(RecordBatch.from_pylist(some, schema=schema))


def schema_of(lines: Iterable[Line]) -> "Schema":
    """Return the columns with their types: bool, whole or floating number, or text."""
    import pyarrow

    found: dict[str, set[type]] = {}
    for line in lines:
        for name, value in line.items():
            kinds = found.setdefault(name, set())
            if value is not None:
                kinds.add(type(value))
    types = {bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    columns = []
    for name, kinds in found.items():
        kind = float if kinds == {int, float} else next(iter(kinds), float)
        columns.append((name, types.get(kind, pyarrow.string())))
    return pyarrow.schema(columns)
