"""Which runs a figure shows: those that have ended and have recorded what it needs."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from earl.errors import DataNotFound, MixedRuns
from earl.experiments.recipes import Value
from earl.experiments.runs.records import RunRecord
from earl.report.groups import Column, Group, group_runs
from earl.report.notes import left_out


def panels(
    runs: Sequence[RunRecord], *, allow_mixed: bool = False, reading: str = "", probe: str = ""
) -> dict[Column, list[Group]]:
    """Return the groups of each data set and stream whose runs hold a reading of a probe."""
    groups, _ = group_runs(recorded(runs, reading, probe), allow_mixed)
    by_column: dict[Column, list[Group]] = {}
    for group in groups:
        by_column.setdefault(group.column, []).append(group)
    return dict(sorted(by_column.items()))


def only(by_column: Mapping[Column, list[Group]]) -> tuple[Column, list[Group]]:
    """Return the only data set and stream there are."""
    if len(by_column) > 1:
        listed = "; ".join(map(str, by_column))
        raise MixedRuns(
            f"this figure shows one stream of one data set, and there are {listed}; choose with "
            "--where dataset=… or --where stream=…"
        )
    return next(iter(by_column.items()))


def recorded(runs: Sequence[RunRecord], reading: str = "", probe: str = "") -> list[RunRecord]:
    """Return the runs that have ended and in whose history there is the reading."""
    finished = [run for run in runs if run.finished]
    if not finished:
        raise DataNotFound(
            f"none of the {len(runs)} runs has ended ({'; '.join(left_out(runs))}); "
            "go on with `earl resume`"
        )
    having = [
        run for run in finished if not reading or any(reading in e.extra for e in run.history)
    ]
    if not having:
        raise DataNotFound(
            f"none of the {len(finished)} runs has recorded {reading!r}; record it with, for "
            f"example: {command(finished[0], probe)}"
        )
    return having


def command(run: RunRecord, probe: str = "", *, method: str = "", **settings: Value) -> str:
    """Return the command that makes this run again, with a probe, a method or other settings."""
    old = run.experiment
    own = run.of("method") if method not in ("", old.method) else {}
    kept = {name: value for name, value in old.settings.items() if name not in own}
    experiment = replace(
        old,
        method=method or old.method,
        probes=tuple({*old.probes, probe} - {""}),
        settings=kept | settings,
    )
    return shlex.join(["earl", *experiment.command()])


def names(groups: Iterable[Group]) -> dict[str, str]:
    """Return what to call each row, with the number of seeds in brackets unless all have one."""
    seeds: dict[str, set[int]] = {}
    for group in groups:
        seeds.setdefault(group.row, set()).add(len(group.runs))
    if all(counts == {1} for counts in seeds.values()):
        return {row: row for row in seeds}
    return {row: f"{row} ({'/'.join(map(str, sorted(n)))})" for row, n in seeds.items()}
