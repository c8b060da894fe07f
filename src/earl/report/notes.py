"""Notes under a table: what a reader has to know before believing its numbers."""

from collections.abc import Container, Iterable, Sequence

from earl.experiments.runs.records import RunRecord
from earl.report.groups import Column, Group, column_of, display_value
from earl.report.paper import MATCHED, READINGS, Row


def left_out(runs: Sequence[RunRecord]) -> list[str]:
    """Name the runs that have not ended, and how far they are, and those that are damaged."""
    others = [run for run in runs if not run.finished]
    if not others:
        return []
    lengths = {column_of(run): run.samples for run in runs if run.finished}
    return [f"left out, {state(run, lengths.get(column_of(run)))}: {run.name}" for run in others]


def state(run: RunRecord, length: int | None) -> str:
    """Return where a run stands that cannot be averaged."""
    if run.damage:
        here = str(run.path / " ")[:-1]  # tables name no places
        return f"damaged ({run.damage.replace(here, '')})"
    if run.summary is not None:  # it ended, but lines are gone
        total = run.summary.get("samples", 0)
        return f"its history is torn (it ends at {run.samples:,} of {total:,} samples)"
    if not run.history:
        return "not begun"
    of_all = f" of {length:,}" if length else ""
    return f"not finished ({run.samples:,}{of_all} samples)"


def absent(groups: Sequence[Group], runs: Iterable[RunRecord]) -> list[str]:
    """Name the seeds that some groups have and others lack; those left out are named already."""
    every = {seed for group in groups for seed in group.runs}
    begun = {(run.kind, run.experiment.seed) for run in runs if not run.finished}
    notes = []
    for group in groups:
        missing = [
            str(seed)
            for seed in sorted(every - set(group.runs))
            if (group.one.kind, seed) not in begun
        ]
        if missing:
            word = "seed" if len(missing) == 1 else "seeds"
            notes.append(f"{word} {', '.join(missing)} missing: {group.row} on {group.column}")
    return notes


def not_recorded(
    groups: Iterable[Group], cells: Container[tuple[str, Column, str]], names: Iterable[str]
) -> list[str]:
    """Say which groups lack a number that a probe would have recorded in all of their runs."""
    rows: dict[str, list[str]] = {}
    for group in groups:
        for name in names:
            if (group.row, group.column, name) not in cells:
                rows.setdefault(name, []).append(f"{group.row} on {group.column}")
    return [f"not recorded by all seeds, {name}: {'; '.join(of)}" for name, of in rows.items()]


def matched(groups: Iterable[Group]) -> list[str]:
    """Say which runs were given an equal budget."""
    rows: dict[str, list[str]] = {}
    for group in groups:
        if text := match_of(group.one):
            rows.setdefault(text, []).append(f"{group.row} on {group.column}")
    return [f"{text}: {'; '.join(of)}" for text, of in sorted(rows.items())]


def match_of(run: RunRecord) -> str:
    """Return the budget that a run had to keep to, or nothing."""
    if not run.matching.get("match"):
        return ""
    return ", ".join(f"{n}={display_value(v)}" for n, v in sorted(run.matching.items()))


def other_readings(metrics: Iterable[str], paper: str) -> list[str]:
    """Say which of the metrics the paper computes in another way than we do."""
    readings = READINGS.get(paper, {})
    return [
        f"the paper's {name} in {paper} is over all time buckets, beside {readings[name]}; "
        f"{name} here is over those that have been seen"
        for name in metrics
        if name in readings
    ]


def not_the_papers(found: Sequence[tuple[Group, Row]], paper: str) -> list[str]:
    """Say in which settings runs differ from the recipe that the paper's numbers belong to."""
    rows: dict[tuple[str, str], list[str]] = {}
    references = {group.one.matching.get("to") for group, _ in found}
    for group, row in found:
        run = group.one
        changes = [
            f"{name} {display_value(value)} (recipe: {display_value(run.usual.get(name, ''))})"
            for name, value in sorted(run.changed.items())
            if name not in row.settings
        ]
        ours, theirs = run.matching.get("match", ""), "flops" if paper in MATCHED else ""
        if ours != theirs and group.method not in references:
            changes.append(f"budget matched in {ours or 'nothing'} (paper: {theirs or 'nothing'})")
        if changes:
            rows.setdefault((str(group.column), ", ".join(changes)), []).append(group.row)
    return [
        f"not the paper's settings: {'; '.join(of)} on {column}: {changes}"
        for (column, changes), of in rows.items()
    ]
