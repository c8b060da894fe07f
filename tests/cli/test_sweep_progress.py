"""What is shown of a sweep, however many runs it has and however narrow the place is."""

import re
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from earl.cli import sweep_progress as overview
from earl.cli.shortnames import cut, shortened, without_common
from earl.cli.sweep import print_end
from earl.cli.sweep_progress import lines, live, results, times, work
from earl.experiments.experiment import Experiment
from earl.experiments.sweeps.sweep import Status


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


def wide(seeds: int) -> list[Status]:
    """Return runs with long names and all kinds of numbers, as comparisons have them."""
    made, settings = [], {"per_class": 300, "every": 300, "width": 16}
    for stream in ("disjoint", "gaussian"):
        for method in ("er-memory-only", "vanilla-etf"):
            for seed in range(1, seeds + 1):
                experiment = Experiment(
                    method=method, dataset="cifar10", stream=stream, seed=seed, settings=settings
                )
                path = Path("runs") / experiment.path()
                made.append(Status(experiment, path, "running", 249 * seed, 3000, 1 - seed / 8))
    return made


def plain(text: str) -> str:
    """Return what a terminal shows, without its codes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def painted(
    painter: object, runs: Sequence[Status], width: int = 90, height: int = 12, **given: object
) -> str:
    text = StringIO()
    console = Console(file=text, width=width, height=height, **given)  # type: ignore[arg-type]
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
    Console(file=text, width=90).print(*results(runs, 90, ["A_AUC"]))
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
        "[2/2] failed: shapes/gaussian/er,every=1/seed-1: OSError: full · 100% learned · 0:00",
    ]


# ---- narrow places


@pytest.mark.parametrize(("width", "seeds"), [(80, 3), (80, 7), (80, 1), (50, 3), (36, 2)])
def test_names_are_shortened_and_numbers_never(width: int, seeds: int) -> None:
    runs = wide(seeds)
    screen = plain(painted(live, runs, width, 60, force_terminal=True)).rpartition("Many")[2]
    assert max(map(len, screen.splitlines())) <= width
    for seed in range(1, seeds + 1):
        assert screen.count(f"{100 - 12.5 * seed:.1f} at {249 * seed // 30}%") == 4
        assert screen.count(f"seed {seed}") == 1
    named = [line for line in screen.splitlines() if " at " in line]
    assert len({line.split()[0] for line in named}) == 4  # which can be told apart


@pytest.mark.parametrize("width", [80, 60, 40])
def test_the_end_keeps_its_numbers_in_a_narrow_place(width: int) -> None:
    metrics = {"A_AUC": 0.81234, "A_last": 1.0}
    runs = [replace(run, state="finished", metrics=metrics) for run in wide(3)]
    text = StringIO()
    Console(file=text, width=width).print(*results(runs, width), sep="\n")
    shown = text.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("81.2 ± 0.0  100.0 ± 0.0      3") == 4 and "…" not in shown
    assert "per_class=300" in shown  # once, for all
    for name in ("disjoint/vanilla-etf", "gaussian/vanilla-etf"):
        assert width < 60 or name in shown


def test_what_all_names_have_in_common_is_told_once() -> None:
    names = ["cifar10,per_class=300/iid/er,every=9", "cifar10,per_class=300/iid/earl,every=9,k=5"]
    assert shortened(names, 80) == (names, "")  # they fit
    assert shortened(names, 20) == (["er", "earl,k=5"], "cifar10, per_class=300, iid, every=9")
    assert shortened(names, 5)[0] == ["er", "ea…=5"]
    assert without_common(names[:1]) == (["er"], "cifar10, per_class=300, iid, every=9")
    limits = [f"cifar10,limit={n}/iid/er" for n in (1, 2)]
    assert without_common(limits) == (["cifar10,limit=1/er", "cifar10,limit=2/er"], "iid")
    assert without_common(["one", "an/other"]) == (["one", "an/other"], "")
    assert [len(cut("0123456789", width)) for width in range(1, 12)] == [*range(1, 11), 10]


# ---- how far it is


def test_progress_is_counted_in_samples_and_the_rest_estimated_from_their_pace() -> None:
    runs = wide(3)
    long, short, waiting, failed, *_ = runs
    runs = [
        replace(long, step=1500, total=4000),
        replace(short, step=500, total=1000, state="interrupted"),
        replace(waiting, step=0, total=0, state="waiting"),  # like those: 2 000 on average
        replace(failed, step=9, total=1000, state="failed"),
    ]
    assert work(runs) == (2000, 7000)
    # 1 000 samples in 20 seconds, and 5 000 are left
    assert times(runs, 1000, 20) == " · 28% learned · 0:20, about 1:40 left"
    assert times(runs, 2000, 20) == " · 28% learned · 0:20"  # nothing was learned yet
    finished = [replace(run, state="finished", step=run.total) for run in runs[:2]]
    assert times(finished, 0, 3725) == " · 100% learned · 1:02:05"
    assert times([replace(long, state="failed")], 0, 1) == ""


def test_all_but_all_is_not_a_hundred_percent() -> None:
    run = replace(wide(1)[0], step=2999, total=3000)
    assert overview.cell(run).plain == "87.5 at 99%"
    assert overview.cell(replace(run, step=0, total=0, accuracy=None)).plain == "starting"


def test_a_log_gets_a_line_for_every_tenth_of_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(overview.time, "monotonic", lambda: now)
    run = wide(1)[0]
    text = StringIO()
    painter = lines("One", Console(file=text, width=80))
    next(painter)
    painter.send([replace(run, step=300, state="interrupted")])
    for step in range(330, 1230, 30):
        now += 1.0
        painter.send([replace(run, step=step)])
    painter.close()
    name = "cifar10,per_class=300/disjoint/er-memory-only,every=300,width=16/seed-1"
    assert text.getvalue().splitlines() == [
        "One: 0 of 1 runs finished, 1 interrupted",
        f"[0/1] running: {name}, going on from sample 300 · 11% learned · 0:01, about 1:29 left",
        "[0/1] 0 of 1 runs finished, 1 running · 21% learned · 0:11, about 1:19 left",
        "[0/1] 0 of 1 runs finished, 1 running · 31% learned · 0:21, about 1:09 left",
    ]


def test_in_a_file_nothing_is_shortened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    metrics = {"A_AUC": 0.81234, "A_last": 1.0}
    print_end([replace(run, state="finished", metrics=metrics) for run in wide(3)], False)
    rows = capsys.readouterr().out.splitlines()
    name = "cifar10,per_class=300/gaussian/er-memory-only,every=300,width=16"
    assert f"{name}  81.2 ± 0.0  100.0 ± 0.0      3" in rows and len(rows) == 5
