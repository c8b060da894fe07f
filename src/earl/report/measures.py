"""What a table can show of runs: metrics of their histories, numbers of probes, and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from earl.errors import DataNotFound, InvalidSetting, UnknownName, suggest
from earl.evaluation.history import Evaluation
from earl.evaluation.metrics import of_part
from earl.experiments.catalogue import METRICS
from earl.experiments.runs.records import RunRecord
from earl.report.selection import command

# What learning has cost by the end, as histories name it, and its unit; see `Learner.costs`.
COSTS: Mapping[str, str] = {"updates": "", "images": "", "flops": "FLOP", "bytes": "B"}
SECONDS = "seconds"  # they are in the summary, because histories of equal runs have equal bytes
# Numbers that probes record at every evaluation: the probe, and the unit.
READINGS: Mapping[str, tuple[str, str]] = {
    "bias": ("bias", ""),
    "NC1": ("collapse", ""),
    "NC2": ("collapse", ""),
    "NC3": ("collapse", ""),
    "training_error": ("training-error", "%"),
    **{f"accuracy_turned_{degrees}": ("rotations", "%") for degrees in (0, 90, 180, 270)},
    **{
        f"{questions}_{way}": ("corrections", "%")
        for questions in ("accuracy", "online")
        for way in ("uncorrected", "stored", "refreshed", "means")
    },
}
MEAN = ":mean"  # behind the name of a reading: its mean over all evaluations, not the last one
MEANS = ("A_AUC", "A_AUC_all", "A_new")  # metrics that are means; NAME:2/5 is that of one part
BEST: Mapping[str, Literal["highest", "lowest"]] = {
    **dict.fromkeys(("A_AUC", "A_last", "AOA"), "highest"),
    **dict.fromkeys(("forgetting", "training_error", "bias", "NC1", "NC2", "NC3"), "lowest"),
}


@dataclass(frozen=True)
class Measure:
    """What a column of numbers is about, and the unit they are in."""

    name: str
    unit: str = "%"
    kind: Literal["metric", "reading", "cost"] = "metric"

    @property
    def reading(self) -> str:
        """The name under which histories have it."""
        return self.name.removesuffix(MEAN)

    def of(self, history: Sequence[Evaluation]) -> float | None:
        """Return a metric of a history, or of the part that is asked for; of an empty one, None."""
        name, _, part = self.name.partition(":")
        if not part:
            return METRICS[name](history)
        i, n = part_of(name, part)
        return of_part(METRICS[name], history, i, n) if len(history) >= n else None


def part_of(metric: str, text: str) -> tuple[int, int]:
    """Return i and n of "i/n", the i-th of n equal parts of the evaluations."""
    if metric not in MEANS:
        raise InvalidSetting(f"{metric} is not of parts of a stream; those are {', '.join(MEANS)}")
    i, _, n = text.partition("/")
    if not (i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n)):
        raise InvalidSetting(f"a part of the stream is named like 2/5, not {text!r}")
    return int(i), int(n)


def measure_of(name: str, runs: Sequence[RunRecord]) -> Measure:
    """Return what is meant by a name: a metric, or a number that some of these runs recorded."""
    metric, colon, part = name.partition(":")
    if metric in METRICS:
        if colon:
            part_of(metric, part)
        return Measure(name)
    ever = {n for run in runs for e in run.history for n in e.numbers if n not in COSTS}
    at_last = {n for run in runs for n in run.history[-1].numbers if n not in COSTS}
    reading = name.removesuffix(MEAN)
    probe, unit = READINGS.get(reading, ("", ""))
    recorded = at_last if name == reading else ever
    if reading in recorded:
        return Measure(name, unit, "reading")
    if reading in ever:  # what comes next is asked for, and nothing does
        raise DataNotFound(
            f"no run has {name!r} at the last evaluation; earlier ones have: {name + MEAN} is "
            "their mean"
        )
    if probe:
        raise DataNotFound(
            f"none of the {len(runs)} runs has recorded {name!r}; record it with, for example: "
            f"{command(runs[0], probe)}"
        )
    known = tuple(dict.fromkeys([*METRICS.names(), *READINGS, *sorted(recorded)]))
    raise UnknownName(
        f"there is no metric {name!r}, nor has a run recorded such a number; {suggest(name, known)}"
    )


def cost_measures(runs: Sequence[RunRecord]) -> list[Measure]:
    """Return the costs that at least one of the runs has recorded."""
    known = {name for run in runs for name in run.history[-1].numbers}
    found = [Measure(name, unit, "cost") for name, unit in COSTS.items() if name in known]
    return [*found, Measure(SECONDS, "s", "cost")]


def value_of(run: RunRecord, measure: Measure, again: Sequence[RunRecord] = ()) -> float | None:
    """Return the number of a run, or None; the same run, made again, may have recorded it."""
    if measure.kind == "metric":
        value = measure.of(run.history)
        return None if value is None else 100 * value
    if measure.name == SECONDS:
        return run.seconds
    for one in (run, *again):
        history = one.history if measure.name.endswith(MEAN) else one.history[-1:]
        values = [e.numbers[measure.reading] for e in history if measure.reading in e.numbers]
        if values:
            return fmean(values) * (100 if measure.unit == "%" else 1)
    return None
