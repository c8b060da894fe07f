"""What is shown of a sweep, however many runs it has."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console

from earl.experiment import Experiment
from earl.overview import lines, live, results
from earl.sweep import Status


def statuses(n: int) -> list[Status]:
    metrics = {"A_AUC": 0.5, "A_last": 0.75}
    made = []
    for i in range(n):
        for seed in (1, 2):
            experiment = Experiment(
                method="er",
                dataset="shapes",
                stream="gaussian",
                seed=seed,
                settings={"every": i + 1},
            )
            path = Path("runs") / experiment.path()
            made.append(Status(experiment, path, "finished", 160, 160, 0.75, metrics))
    return made


def painted(painter: object, runs: Sequence[Status], **given: object) -> str:
    text = StringIO()
    console = Console(file=text, width=90, height=12, **given)  # type: ignore[arg-type]
    painting = painter("Many", console)  # type: ignore[operator]
    next(painting)
    painting.send(runs)
    painting.close()
    return text.getvalue()


def test_an_overview_that_does_not_fit_shows_where_something_happens() -> None:
    runs = statuses(30)
    runs[41] = Status(runs[41].experiment, runs[41].path, "failed", 80, 160, 0.5, {}, "why")
    runs[50] = Status(runs[50].experiment, runs[50].path, "running", 40, 160, 0.25)
    shown = painted(live, runs, force_terminal=True, no_color=True)
    assert "58 of 60 runs finished, 1 failed, 1 running" in shown
    for words in ("er,every=21  ", "er,every=26  ", "failed", "25.0 at 25%", "… and 25 more rows"):
        assert words in shown
    assert shown.rpartition("Many")[2].count("\n") <= 12


def test_the_end_shows_means_and_deviations() -> None:
    runs = statuses(1)
    runs[1] = Status(runs[1].experiment, runs[1].path, "finished", 160, 160, 0.5, {"A_AUC": 0.6})
    text = StringIO()
    Console(file=text, width=90).print(results(runs, ["A_AUC"]))
    # mean of 50 and 60; deviation of two values: half their distance times the root of two
    assert text.getvalue().splitlines()[1].split() == [
        "shapes/gaussian/er,every=1",
        *("55.0", "±", "7.1", "2"),
    ]


def test_plain_lines_name_what_fails() -> None:
    runs = statuses(1)
    runs[0] = Status(runs[0].experiment, runs[0].path, "failed", message="Trace\nOSError: full")
    assert painted(lines, runs).splitlines() == [
        "Many: 1 of 2 runs finished, 1 failed",
        "[2/2] failed: shapes/gaussian/er,every=1/seed-1: OSError: full",
    ]
