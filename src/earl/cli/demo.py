"""The demo: EARL against experience replay on real images, in less than a minute."""

from collections.abc import Callable, Generator
from pathlib import Path

from earl.cli.output import keep_fonts
from earl.evaluation.loop import Moment
from earl.experiments.experiment import Experiment
from earl.experiments.runs.directory import RunDirectory
from earl.experiments.runs.records import find_runs

RATES = {"er": 2.4e-3, "earl": 2.4e-3}  # chosen on held-out training digits, docs/results.md
TITLE = "Handwritten digits, classes arriving on a Gaussian schedule"


def demo(
    out: Path, seed: int, follow: Callable[[Generator[Moment], str], None]
) -> tuple[list[RunDirectory], Path]:
    """Run both methods on the same stream; return the runs and a picture of their accuracy."""
    runs = []
    for method, lr in RATES.items():
        experiment = Experiment(
            method=method, dataset="digits", stream="gaussian", seed=seed, settings={"lr": lr}
        )
        run = RunDirectory(out / experiment.path(), experiment)
        follow(run.run(threads=1), method)
        runs.append(run)
    picture = out / "accuracy.png"
    draw(runs, picture)
    return runs, picture


def draw(runs: list[RunDirectory], picture: Path) -> None:
    """Draw the accuracy curves of several runs."""
    keep_fonts()
    from earl.report.figures.canvas import save
    from earl.report.figures.curves import curves

    found = find_runs([run.path for run in runs])
    save(curves(found, title=TITLE, allow_mixed=True), picture)
