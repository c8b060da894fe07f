"""The ledger: every number of the paper, what our runs give for it, and how to get it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from earl.experiments.catalogue import METRICS
from earl.experiments.runs.records import RunRecord
from earl.report.paper import MATCHED, ROWS, Key, Reported, Row, figures, key_of, rows_of
from earl.report.statistics import Spread, spread

TURNS = ("CIFAR-10", "CIFAR-10-R90", "CIFAR-10-R180", "CIFAR-10-R270")
EFFECT = "transform_effect"  # the one table that is not of online runs
OURS_TO_CHOOSE = {"rotate", "rand_augment", "memory_size", "begin", "batch_size", "iterations"}
OFTEN = ("A_AUC", "A_AUC_all", "forgetting")  # metrics that depend on how often there is an exam


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
        return command_for(self.table)


def command_for(table: str) -> str:
    """Return the command that gives our numbers for a table, or for what the text tells."""
    costs = "earl list methods --cost --dataset"
    texts = {
        "text_memory_budget": f"{costs} cifar10",
        "text_rc_cost": f"{costs} imagenet-200 --method earl",
    }
    return texts.get(table, f"earl reproduce {table}")


def ledger(runs: Iterable[RunRecord]) -> list[Line]:
    """Return a line for every number of the paper, in its order.

    Of several runs with one seed that belong to a number, the one with the fewest changes counts.
    """
    lines = {key: Line(key, paper) for key, paper in figures().items()}
    for run in sorted(runs, key=lambda run: -len(run.changed)):
        if run.finished:
            for key, value, reduced in numbers_of(run):
                line = lines[key]
                (line.reduced if reduced else line.ours)[run.experiment.seed] = 100 * value
    return list(lines.values())


def numbers_of(run: RunRecord) -> Iterator[tuple[Key, float, bool]]:
    """Yield the places in the paper that a run belongs to, its values, and if it is reduced."""
    matched = run.experiment.match == "flops" and run.experiment.to == "er"
    for table in ROWS:
        if matched != (table in MATCHED) or run.experiment.match == "bytes":
            continue
        for row in rows_of(table, run.experiment.method, run.settings):
            for entry in METRICS:
                key = key_of(table, run.dataset, run.stream, row, entry.name)
                if key in figures():
                    yield key, METRICS[entry.name](run.history), is_reduced(run, row, entry.name)
    yield from turned(run)


def turned(run: RunRecord) -> Iterator[tuple[Key, float, bool]]:
    """Yield the accuracies of a network trained on turned images, which the probe turns further."""
    if run.dataset != "cifar10" or run.stream != "iid" or not run.history:
        return
    trained = int(run.settings["rotate"]) // 90
    for more in range(4):
        value = run.history[-1].extra.get(f"accuracy_turned_{90 * more}")
        if isinstance(value, float | int):
            asked = TURNS[(trained + more) % 4]
            key = (EFFECT, asked, "joint_offline", f"trained on {TURNS[trained]}", "accuracy")
            yield key, value, not is_offline(run)


def is_offline(run: RunRecord) -> bool:
    """Return whether all images of the full data set were kept, and only then trained on.

    The paper states no settings of its offline training.
    """
    kept = min(int(run.settings["memory_size"]), int(run.settings.get("begin", 0)))
    return kept >= run.samples and not set(run.changed) - OURS_TO_CHOOSE - {"every"}


def is_reduced(run: RunRecord, row: Row, metric: str) -> bool:
    """Return whether a run has other settings than the paper's, beyond those of its row.

    How often it is examined counts for metrics that depend on it.
    """
    free = set() if metric in OFTEN else {"every"}
    return bool(set(run.changed) - set(row.settings) - free)


def summary(lines: Sequence[Line]) -> dict[str, dict[str, int]]:
    """Return, for every table, how many of its numbers have been run, in which size, or not."""
    counts: dict[str, dict[str, int]] = {}
    for line in lines:
        row = counts.setdefault(line.table, {"run": 0, "reduced": 0, "not run": 0})
        row[line.state] += 1
    return counts
