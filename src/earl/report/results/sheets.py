"""Published tables: from records that were kept to Markdown. Equal records give equal bytes."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from earl.errors import DataNotFound, InvalidSetting, MixedRuns, suggest
from earl.experiments.runs.records import RunRecord, choose_runs, fits, show
from earl.report.groups import by_seed, distinct
from earl.report.measures import measure_of, value_of
from earl.report.results.description import Choice, Pair, Sheet
from earl.report.statistics import paired_difference, spread
from earl.report.tables.layout import NOTHING, interval, plus_minus, quantity

NOT_RUN = "not run yet"
HOW = "Percent, mean ± standard deviation (seeds)"
COSTS = {"flops": ("training", "FLOP"), "bytes": ("bytes", "B")}  # titles and units
PAIRED = "differences in points: mean over common seeds, 95 % interval, seeds won"


def markdown(sheet: Sheet, runs: Sequence[RunRecord]) -> str:
    """Return a described table of these runs, with what a reader has to know below it."""
    finished = [run for run in runs if run.finished]
    make = {"methods": methods, "grid": grid, "differences": differences}[sheet.kind]
    titles, lines, used = make(sheet, finished)
    if not used:
        return no_records(sheet)
    return table(titles, lines, about(sheet, used))


def no_records(sheet: Sheet) -> str:
    return f"No records yet: `{sheet.command}` makes them.\n"


def table(titles: Sequence[str], lines: Sequence[Sequence[str]], below: str) -> str:
    """Return a table in Markdown with a text below it."""
    rule = "|" + "---|" * len(titles)
    body = "\n".join(row(cells) for cells in lines)
    return f"{row(titles)}\n{rule}\n{body}\n\n{below}\n"


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


Made = tuple[list[str], list[list[str]], list[RunRecord]]


def methods(sheet: Sheet, runs: Sequence[RunRecord]) -> Made:
    """Return a line for each row with its settings, metrics, differences and costs."""
    titles = ["method", *sheet.settings]
    for metric in sheet.metrics:
        titles.append(metric)
        if metric in sheet.compared:
            titles.append(f"minus {sheet.versus}")
    if unknown := [name for name in sheet.costs if name not in COSTS]:
        raise InvalidSetting(f"no runs have the cost {unknown[0]!r}; {suggest(unknown[0], COSTS)}")
    titles += [COSTS[name][0] for name in sheet.costs]
    groups = {choice.label: select(runs, (*sheet.where, *choice.where)) for choice in sheet.rows}
    if sheet.compared and sheet.versus not in groups:
        raise InvalidSetting(f"table {sheet.name}: there is no row {sheet.versus!r} to subtract")
    lines: list[list[str]] = []
    used: list[RunRecord] = []
    for label, group in groups.items():
        one = [*group.values()][:1]
        cells = [label, *(show(run.settings[name]) for run in one for name in sheet.settings)]
        for metric in sheet.metrics if group else ():
            cells.append(mean_of(group, metric))
            if metric in sheet.compared:
                versus = {} if label == sheet.versus else values(groups[sheet.versus], metric)
                cells.append(difference(values(group, metric), versus))
        cells += [cost(group, name) for name in sheet.costs if group]
        cells += [] if group else [NOT_RUN, *[""] * (len(titles) - 2)]
        lines.append(cells)
        used += group.values()
    return titles, lines, used


def grid(sheet: Sheet, runs: Sequence[RunRecord]) -> Made:
    """Return a line for each row with a metric in each column, the best one bold."""
    (metric,) = sheet.metrics
    asked = [column.metric or metric for column in sheet.columns]
    lines: list[list[str]] = []
    used: list[RunRecord] = []
    for choice in sheet.rows:
        groups = [select(runs, (*sheet.where, *choice.where, *c.where)) for c in sheet.columns]
        best = best_column(sheet, runs, choice) if sheet.best_by else None
        texts = [mean_of(group, name) for group, name in zip(groups, asked, strict=True)]
        if best is not None and groups[best]:
            texts[best] = f"**{texts[best]}**"
        lines.append([choice.label, *texts])
        used += [run for group in groups for run in group.values()]
    return [metric, *(column.label for column in sheet.columns)], lines, used


def best_column(sheet: Sheet, runs: Sequence[RunRecord], choice: Choice) -> int | None:
    """Return the column whose runs that fit `best_by` have the largest mean."""
    means = {}
    for i, column in enumerate(sheet.columns):
        group = select(runs, (*sheet.best_by, *choice.where, *column.where))
        if group:
            means[i] = fmean(values(group, sheet.metrics[0]).values())
    return max(means, key=lambda i: means[i]) if means else None


def differences(sheet: Sheet, runs: Sequence[RunRecord]) -> Made:
    """Return a line for each pair with its difference in each column."""
    (metric,) = sheet.metrics
    lines: list[list[str]] = []
    used: list[RunRecord] = []
    for pair in sheet.pairs:
        cells = [pair.label]
        for column in sheet.columns:
            plus, minus = both(sheet, runs, pair, column)
            ours, theirs = (
                values(group, own or column.metric or metric)
                for group, own in ((plus, pair.plus_metric), (minus, pair.minus_metric))
            )
            cells.append(difference(ours, theirs))
            used += [
                run for seed in plus.keys() & minus.keys() for run in (plus[seed], minus[seed])
            ]
        lines.append(cells)
    return [f"{metric}, difference", *(column.label for column in sheet.columns)], lines, used


def both(
    sheet: Sheet, runs: Sequence[RunRecord], pair: Pair, column: Choice
) -> tuple[dict[int, RunRecord], dict[int, RunRecord]]:
    shared = (*sheet.where, *column.where)
    return select(runs, (*shared, *pair.plus)), select(runs, (*shared, *pair.minus))


def select(runs: Sequence[RunRecord], where: Sequence[str]) -> dict[int, RunRecord]:
    """Return the runs that fit, by seed; they must differ in nothing but the seed."""
    try:
        chosen = distinct(choose_runs(runs, where))
    except (DataNotFound, KeyError):
        return {}
    kinds = {run.kind: run for run in chosen}
    if len(kinds) > 1:
        one, two = [*kinds.values()][:2]
        raise MixedRuns(f"{one.path} and {two.path} fit {' '.join(where)}: say which is meant")
    return by_seed(chosen)


def values(group: Mapping[int, RunRecord], metric: str) -> dict[int, float]:
    """Return a metric by seed, of the runs that have it."""
    if not group:
        return {}
    try:
        measure = measure_of(metric, [*group.values()])
    except DataNotFound:  # a number that none of them has recorded
        return {}
    found = {seed: value_of(run, measure) for seed, run in group.items()}
    return {seed: value for seed, value in found.items() if value is not None}


def mean_of(group: Mapping[int, RunRecord], metric: str) -> str:
    """Return mean, deviation and number of seeds; of numbers that are no percentages two digits."""
    if not (known := values(group, metric)):
        return NOTHING
    found = spread([*known.values()])
    digits = 1 if measure_of(metric, [*group.values()]).unit == "%" else 2
    return f"{plus_minus(found.mean, found.std, digits)} ({found.n})"


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> str:
    """Return the difference of values by seed with its interval and the number of seeds won."""
    found = paired_difference(ours, theirs)
    if found is None:
        return NOTHING
    won = sum(ours[seed] > theirs[seed] for seed in ours.keys() & theirs.keys())
    return f"{interval(found, 1).rpartition(' ')[0]}, {won} of {found.n}"


def cost(group: Mapping[int, RunRecord], name: str) -> str:
    """Return what the runs have cost by their end, the mean of them."""
    costs = [run.history[-1].numbers.get(name) for run in group.values()]
    known = [cost for cost in costs if cost is not None]
    return quantity(fmean(known), COSTS[name][1]) if known else NOTHING


def about(sheet: Sheet, runs: Sequence[RunRecord]) -> str:
    """Return what the runs of a table have in common, and the command that made them."""
    one = runs[0]
    numbers = sorted({run.experiment.seed for run in runs})
    seeds = ("seeds " if len(numbers) > 1 else "seed ") + ", ".join(map(str, numbers))
    lengths = " or ".join(f"{n:,}" for n in sorted({run.samples for run in runs}))
    named = {"d", "hidden"} | {text.partition("=")[0] for text in sheet.where}
    changed = {name for run in runs for name in run.changed} - named
    common = [
        f"{name}={show(one.settings[name])}"
        for name in sorted(changed)
        if all(fits(run.settings.get(name, ""), [show(one.settings.get(name, ""))]) for run in runs)
    ]
    settings = f"; not the recipe's: {', '.join(common)}" if common else ""
    paired = f"; {PAIRED}" if sheet.compared or sheet.pairs else ""
    read = PAIRED.capitalize() if sheet.kind == "differences" else f"{HOW}{paired}"
    where = f"{one.dataset}, {', '.join(sorted({run.stream for run in runs}))}"
    facts = f"{where}; streams of {lengths} samples, {seeds}{settings}"
    return f"{read}. {facts}. Made by `{sheet.command}`."
