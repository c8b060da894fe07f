"""How a sweep goes: a live table on a terminal, plain lines elsewhere, results at the end."""

import time
from collections.abc import Generator, Iterable, Sequence
from statistics import fmean, stdev

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from earl.printable import printable
from earl.progress import Stopped, stop_on_signal
from earl.sweep import State, Status

Snapshot = Sequence[Status]
STYLES: dict[State, str] = {
    "finished": "green",
    "failed": "bold red",
    "running": "cyan",
    "in use": "yellow",
    "interrupted": "dim",
    "waiting": "dim",
}
CELL = len("100.0 at 100%")  # so that columns stand still
OTHER_LINES = 6  # of the screen: the head, the foot and the prompt


def group_of(status: Status) -> str:
    """Return what runs that differ only in their seed have in common."""
    return "/".join(status.path.parts[-4:-1])


def grouped(runs: Iterable[Status]) -> dict[str, list[Status]]:
    groups: dict[str, list[Status]] = {}
    for run in runs:
        groups.setdefault(group_of(run), []).append(run)
    return groups


def follow(snapshots: Generator[Snapshot], *, title: str, console: Console) -> Snapshot:
    """Sweep to the end and show how it goes; a signal stops and saves all runs: Stopped."""
    runs: Snapshot = ()
    with stop_on_signal() as stop:
        painter = (live if console.is_terminal else lines)(title, console)
        next(painter)
        for runs in snapshots:
            painter.send(runs)
            if stop.number is not None:
                break
        painter.close()
        if stop.number is not None:
            console.print("Saving the runs …", highlight=False)
            snapshots.close()
            raise Stopped(stop.number)
    return runs


def live(title: str, console: Console) -> Generator[None, Snapshot, None]:
    """Paint all runs: a row for each group, a column for each seed."""
    begun = time.monotonic()
    # No thread of its own paints it: every snapshot does.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        first: float | None = None
        while True:
            runs = yield
            first = done(runs) if first is None else first
            seconds = time.monotonic() - begun
            room = max(1, console.height - OTHER_LINES)
            head = Text.assemble((title, "bold"), f"\n{counts(runs)}{times(runs, first, seconds)}")
            screen.update(Group(head, table(runs, room)), refresh=True)


def lines(title: str, console: Console) -> Generator[None, Snapshot, None]:
    """Print a line when a run starts, ends, fails or has to wait."""
    before: dict[object, State] = {}
    while True:
        runs = yield
        if not before:
            console.print(f"{title}: {counts(runs)}", highlight=False, markup=False)
        ended = sum(run.state in ("finished", "failed") for run in runs)
        for run in runs:
            known = before.get(run.path, "finished" if run.state == "finished" else "waiting")
            before[run.path] = run.state
            if run.state != known and run.state not in ("waiting", "interrupted"):
                text = f"[{ended}/{len(runs)}] {run.state}: {group_of(run)}/{run.path.name}"
                console.print(text + detail(run), highlight=False, markup=False, soft_wrap=True)


def detail(run: Status) -> str:
    """Return what there is to add about a run in its state."""
    if run.state == "finished":
        return f", A_AUC {100 * run.metrics['A_AUC']:.1f}, A_last {100 * run.metrics['A_last']:.1f}"
    if run.state == "running" and run.step:
        return f", going on from about sample {run.step}"
    return f": {printable(run.message.splitlines()[-1])}" if run.message else ""


def counts(runs: Snapshot) -> str:
    """Return how many runs there are in each state."""
    numbers = {state: sum(run.state == state for run in runs) for state in STYLES}
    parts = [f"{numbers.pop('finished')} of {len(runs)} runs finished"]
    return ", ".join(parts + [f"{n} {state}" for state, n in numbers.items() if n])


def done(runs: Snapshot) -> float:
    """Return the work done, counted in runs."""
    return sum(1.0 if run.state == "finished" else share(run) for run in runs)


def share(run: Status) -> float:
    return run.step / run.total if run.total else 0.0


def times(runs: Snapshot, first: float, seconds: float) -> str:
    """Return the time so far and, once some work was done, about how long the rest will take."""
    text = f" · {clock(seconds)}"
    worked = done(runs) - first
    left = sum(1 - share(run) for run in runs if run.state not in ("finished", "failed"))
    return text + (f", about {clock(seconds * left / worked)} left" if worked and left else "")


def clock(seconds: float) -> str:
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


def table(runs: Snapshot, room: int) -> Group:
    """Return all runs in at most `room` rows; groups where something happens come first."""
    groups = grouped(runs)
    shown = groups
    if len(groups) > room:
        order: list[State] = ["failed", "running", "in use", "interrupted", "waiting", "finished"]
        first = {name: min(order.index(run.state) for run in of) for name, of in groups.items()}
        chosen = set(sorted(groups, key=first.__getitem__)[: max(1, room - 1)])
        shown = {name: of for name, of in groups.items() if name in chosen}
    seeds = sorted({run.experiment.seed for of in shown.values() for run in of})
    rows = Table(box=None, pad_edge=False, header_style="dim")
    rows.add_column("accuracy, %", no_wrap=True)
    for seed in seeds:
        rows.add_column(f"seed {seed}", justify="right", no_wrap=True, min_width=CELL)
    for name, of in shown.items():
        cells = {run.experiment.seed: cell(run) for run in of}
        rows.add_row(name, *(cells.get(seed, Text("")) for seed in seeds))
    hidden = len(groups) - len(shown)
    return Group(rows, Text(f"… and {hidden} more rows", "dim")) if hidden else Group(rows)


def cell(run: Status) -> Text:
    """Return a run in a few letters: its accuracy, and the share of the stream behind it."""
    accuracy = "" if run.accuracy is None else f"{100 * run.accuracy:.1f} "
    text = {
        "waiting": "·",
        "interrupted": f"{accuracy}at {share(run):.0%}",
        "running": f"{accuracy}at {share(run):.0%}" if run.total else "starting",
        "finished": accuracy.strip(),
    }
    return Text(text.get(run.state, run.state), STYLES[run.state])


def results(runs: Snapshot, metrics: Sequence[str] = ("A_AUC", "A_last")) -> Table:
    """Return the metrics of the finished runs in percent: mean and deviation over the seeds."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    rows.add_column("run", no_wrap=True)
    for name in metrics:
        rows.add_column(name, justify="right", no_wrap=True)
    rows.add_column("seeds", justify="right")
    for name, of in grouped(run for run in runs if run.state == "finished").items():
        values = [[100 * run.metrics[metric] for run in of] for metric in metrics]
        rows.add_row(name, *(spread(v) for v in values), str(len(of)))
    return rows


def spread(values: Sequence[float]) -> str:
    """Return mean and, of several values, ± standard deviation (n - 1)."""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
