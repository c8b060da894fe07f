"""Published tables of few samples: accuracy after so many samples a class, from benchmarks."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from earl.errors import InvalidSetting
from earl.report.results.description import Sheet
from earl.report.results.sheets import NOT_RUN, table
from earl.report.statistics import paired_difference
from earl.report.tables.layout import NOTHING, interval, quantity


def few_shot(sheet: Sheet, content: Mapping[str, Any]) -> str:
    """Return a table with a line for each contestant, and what a reader has to know below it.

    In the columns stand the mean accuracies in percent after each count of samples a class,
    microseconds and bytes. Rows that are `compared` have their paired differences to the contestant
    `versus` in a line of their own.
    """
    (classes,) = (int(text.partition("=")[2]) for text in sheet.where)
    curves = {c["name"]: c for c in content["curves"] if c["classes"] == classes}
    counts = [str(count) for count in content["counts"]]
    against = curves.get(sheet.versus)
    lines = []
    for choice in sheet.rows:
        one = curves.get(choice.where[0].partition("=")[2])
        if one is None:
            lines.append([choice.label, NOT_RUN, *[""] * (len(counts) + 1)])
            continue
        means = [fmean(values) for values in zip(*one["accuracies"].values(), strict=True)]
        cost = [f"{one['microseconds']:,}", quantity(one["bytes"], "B")]
        lines.append([choice.label, *(f"{mean:.1f}" for mean in means), *cost])
        if one is not against and choice.label in sheet.compared:
            lines.append([f"{choice.label} − `{sheet.versus}`", *differences(one, against), "", ""])
    seeds = ", ".join(next(iter(curves.values()))["accuracies"]) if curves else ""
    facts = (
        f"Percent right of {classes} classes after so many samples of each, mean over seeds "
        f"{seeds}; differences: mean over seeds in points, 95 % interval; CPU time to learn a "
        f"sample; bytes held in the end. {content['train']:,} embeddings to draw from and "
        f"{content['test']:,} to ask about. Made by `{sheet.command}`."
    )
    return table([f"{classes} classes", *counts, "µs", "bytes"], lines, facts)


def differences(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> Sequence[str]:
    """Return the paired difference of two curves at each count."""
    if other is None:
        raise InvalidSetting(f"there is no curve to subtract from that of {one['name']!r}")
    found = []
    for place in range(len(next(iter(one["accuracies"].values())))):
        ours, theirs = (
            {int(seed): row[place] for seed, row in c["accuracies"].items()} for c in (one, other)
        )
        paired = paired_difference(ours, theirs)
        found.append(NOTHING if paired is None else interval(paired, 1).rpartition(" ")[0])
    return found
