"""The ledger: every number of the paper, what our runs say to it, and how to get it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from earl.catalogue import METRICS
from earl.report.reported import MATCHED, ROWS, Key, Reported, Row, figures, fitting
from earl.runs import Run
from earl.statistics import Spread, spread

TURNS = ("CIFAR-10", "CIFAR-10-R90", "CIFAR-10-R180", "CIFAR-10-R270")
EFFECT = "transform_effect"  # the one table that is not of online runs


@dataclass
class Line:
    """One number of the paper, and our values by seed: with its settings, and with smaller ones."""

    key: Key
    paper: Reported
    ours: dict[int, float] = field(default_factory=dict)
    reduced: dict[int, float] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return self.key[0]

    @property
    def state(self) -> str:
        """Whether there are runs with the paper's settings, only smaller ones, or none."""
        return "run" if self.ours else "reduced" if self.reduced else "not run"

    @property
    def spread(self) -> Spread | None:
        values = self.ours or self.reduced
        return spread([values[seed] for seed in sorted(values)]) if values else None

    @property
    def gap(self) -> float | None:
        """How far our mean lies above the paper's, in points."""
        return self.spread.mean - self.paper.mean if self.spread else None

    @property
    def command(self) -> str:
        if self.table.startswith("text_"):  # bytes and FLOPs that the paper tells in its text
            return "earl list methods --cost --dataset cifar10"
        return f"earl reproduce {self.table}"


def ledger(runs: Iterable[Run]) -> list[Line]:
    """Return a line for every number of the paper, in its order."""
    lines = {key: Line(key, paper) for key, paper in figures().items()}
    for run in runs:
        if run.finished:
            for key, value, reduced in numbers_of(run):
                line = lines[key]
                (line.reduced if reduced else line.ours)[run.experiment.seed] = 100 * value
    return list(lines.values())


def numbers_of(run: Run) -> Iterator[tuple[Key, float, bool]]:
    """Yield the places in the paper that a run speaks to, its values, and whether it is reduced."""
    about = (run.dataset, run.stream, run.experiment.method)
    matched = run.experiment.match == "flops" and run.experiment.to == "er"
    for table in ROWS:
        if matched != (table in MATCHED) or run.experiment.match == "bytes":
            continue
        for entry in METRICS:
            for key, row in fitting(table, *about, run.settings, entry.name):
                yield key, METRICS[entry.name](run.history), is_reduced(run, row)
    yield from turned(run)


def turned(run: Run) -> Iterator[tuple[Key, float, bool]]:
    """Yield the accuracies of a network trained on turned images, which the probe turns further."""
    if run.dataset != "cifar10" or run.stream != "iid" or not run.history:
        return
    trained = int(run.settings["rotate"]) // 90
    for more in range(4):
        value = run.history[-1].extra.get(f"accuracy_turned_{90 * more}")
        if isinstance(value, float | int):
            asked = TURNS[(trained + more) % 4]
            key = (EFFECT, asked, "joint_offline", f"trained on {TURNS[trained]}", "accuracy")
            yield key, value, bool({"width", "per_class", "limit"} & set(run.changed))


def is_reduced(run: Run, row: Row) -> bool:
    """Return whether a run has other settings than the paper's, beyond how often it is examined."""
    return bool(set(run.changed) - set(row.settings) - {"every"})


def summary(lines: Sequence[Line]) -> dict[str, dict[str, int]]:
    """Return, for every table, how many of its numbers have been run, in which size, or not."""
    counts: dict[str, dict[str, int]] = {}
    for line in lines:
        row = counts.setdefault(line.table, {"run": 0, "reduced": 0, "not run": 0})
        row[line.state] += 1
    return counts
