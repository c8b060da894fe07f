"""How a sweep goes: a live table on a terminal, plain lines elsewhere, results at the end."""

import time
from collections.abc import Generator, Iterable, Sequence
from statistics import fmean, stdev

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from earl.cli.progress import Stopped, clock, stop_on_signal
from earl.cli.shortnames import shortened, without_common
from earl.experiments.sweeps.sweep import State, Status
from earl.storage.printable import printable

Snapshot = Sequence[Status]
STYLES: dict[State, str] = {
    "finished": "green",
    "failed": "bold red",
    "running": "cyan",
    "in use": "yellow",
    "interrupted": "dim",
    "waiting": "dim",
}
CELL = len("100.0 at 100%")  # every cell is as wide, so that columns stay where they are
GAP = 2  # letters between two columns
LEAST_NAME = 20  # letters that a name keeps at least, if seeds can stand below each other
OTHER_LINES = 6  # of the screen that are not runs: the head, the foot and the prompt
TENTH = 0.1  # a log gets a line after this share of all samples


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
    # It is painted when a snapshot arrives, not by a thread of its own.
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        first: float | None = None
        while True:
            runs = yield
            first = work(runs)[0] if first is None else first
            seconds = time.monotonic() - begun
            room = max(1, console.height - OTHER_LINES)
            head = Text.assemble((title, "bold"), f"\n{counts(runs)}{times(runs, first, seconds)}")
            screen.update(Group(head, *table(runs, room, console.width)), refresh=True)


def lines(title: str, console: Console) -> Generator[None, Snapshot, None]:
    """Print a line when a run starts, ends, fails or has to wait, and one for every tenth done."""
    begun = time.monotonic()
    before: dict[object, Status] = {}
    first = told = 0.0
    while True:
        runs = yield
        done, whole = work(runs)
        if not before:
            first = told = done
            tell(console, f"{title}: {counts(runs)}")
        ended = f"[{sum(run.state in ('finished', 'failed') for run in runs)}/{len(runs)}]"
        left = times(runs, first, time.monotonic() - begun)
        for run in runs:
            known = before.get(run.path)
            before[run.path] = run
            if is_news(run, known):
                name = f"{group_of(run)}/{run.path.name}"
                tell(console, f"{ended} {run.state}: {name}{detail(run, known)}{left}")
                told = done
        if done - told >= TENTH * whole:
            told = done
            tell(console, f"{ended} {counts(runs)}{left}")


def tell(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def is_news(run: Status, known: Status | None) -> bool:
    """Tell whether a run has come to a state that should stand in a log."""
    state = known.state if known else "finished" if run.state == "finished" else "waiting"
    return run.state != state and run.state not in ("waiting", "interrupted")


def detail(run: Status, known: Status | None) -> str:
    """Return what there is to add about a run in its state."""
    if run.state == "finished":
        return f", A_AUC {100 * run.metrics['A_AUC']:.1f}, A_last {100 * run.metrics['A_last']:.1f}"
    if run.state == "running" and known and known.step:
        return f", going on from sample {known.step}"
    return f": {printable(run.message.splitlines()[-1])}" if run.message else ""


def counts(runs: Snapshot) -> str:
    """Return how many runs there are in each state."""
    numbers = {state: sum(run.state == state for run in runs) for state in STYLES}
    parts = [f"{numbers.pop('finished')} of {len(runs)} runs finished"]
    return ", ".join(parts + [f"{n} {state}" for state, n in numbers.items() if n])


def work(runs: Snapshot) -> tuple[float, float]:
    """Return the samples learned, and those of all runs; those that have failed do not count.

    A stream that has not begun is taken to be as long as others of its kind, or of the sweep.
    """
    known: dict[tuple[str, ...], list[int]] = {}
    for run in runs:
        if run.total:
            known.setdefault(run.path.parts[-4:-2], []).append(run.total)
    typical = fmean([total for totals in known.values() for total in totals] or [1])
    guess = {place: fmean(totals) for place, totals in known.items()}
    counted = [run for run in runs if run.state != "failed"]
    whole = [run.total or guess.get(run.path.parts[-4:-2], typical) for run in counted]
    done = (share(run) * samples for run, samples in zip(counted, whole, strict=True))
    return sum(done), sum(whole)


def share(run: Status) -> float:
    if run.state == "finished":
        return 1.0
    return run.step / run.total if run.total else 0.0


def percent(part: float) -> str:
    """Return a share in whole percent; 100 only if all is done."""
    return f"{int(100 * part + 1e-9)}%"


def times(runs: Snapshot, first: float, seconds: float) -> str:
    """Return the share of all samples that is done, the time so far, and about how long is left.

    The rest is taken to go at the pace of all that was learned since `first`.
    """
    done, whole = work(runs)
    text = f" · {percent(done / whole)} learned · {clock(seconds)}" if whole else ""
    if not first < done < whole:
        return text
    return f"{text}, about {clock(seconds * (whole - done) / (done - first))} left"


def table(runs: Snapshot, room: int, width: int) -> list[RenderableType]:
    """Return all runs in about `room` rows; groups where something happens come first.

    Names are shortened as far as needed and numbers never: seeds that do not fit beside each other
    stand below.
    """
    groups, seeds = grouped(runs), sorted({run.experiment.seed for run in runs})
    fit = max(1, (width - LEAST_NAME) // (CELL + GAP))
    blocks = -(-len(seeds) // fit)
    each = -(-len(seeds) // blocks)
    shown = liveliest(groups, (room + 1) // blocks - 1 if blocks > 1 else room)
    names, common = shortened(list(shown), max(1, width - each * (CELL + GAP)))
    made: list[RenderableType] = (
        [Text(f"all runs: {common}", "dim", overflow="fold")] if common else []
    )
    for start in range(0, len(seeds), each):
        rows = Table(box=None, pad_edge=False, header_style="dim")
        rows.add_column("accuracy, %", no_wrap=True)
        part = seeds[start : start + each]
        for seed in part:
            rows.add_column(f"seed {seed}", justify="right", no_wrap=True, min_width=CELL)
        for name, of in zip(names, shown.values(), strict=True):
            cells = {run.experiment.seed: cell(run) for run in of}
            rows.add_row(Text(name), *(cells.get(seed, Text("")) for seed in part))
        made.append(rows)
    hidden = len(groups) - len(shown)
    return [*made, Text(f"… and {hidden} more rows", "dim")] if hidden else made


def liveliest(groups: dict[str, list[Status]], room: int) -> dict[str, list[Status]]:
    """Return at most so many groups, those in which something happens, in their order."""
    if len(groups) <= room:
        return groups
    order: list[State] = ["failed", "running", "in use", "interrupted", "waiting", "finished"]
    first = {name: min(order.index(run.state) for run in of) for name, of in groups.items()}
    chosen = set(sorted(groups, key=first.__getitem__)[: max(1, room - 1)])
    return {name: of for name, of in groups.items() if name in chosen}


def cell(run: Status) -> Text:
    """Return a run in a few letters: its accuracy, and the share of the stream behind it."""
    accuracy = "" if run.accuracy is None else f"{100 * run.accuracy:.1f} "
    text = {
        "waiting": "·",
        "interrupted": f"{accuracy}at {percent(share(run))}",
        "running": f"{accuracy}at {percent(share(run))}" if run.total else "starting",
        "finished": accuracy.strip(),
    }
    return Text(text.get(run.state, run.state), STYLES[run.state])


def results(
    runs: Snapshot, width: int, metrics: Sequence[str] = ("A_AUC", "A_last")
) -> list[RenderableType]:
    """Return the metrics of the finished runs in percent: mean and deviation over the seeds.

    Where names do not fit, what all have in common stands above them once.
    """
    groups = grouped(run for run in runs if run.state == "finished")
    cells = [
        [*(spread([100 * run.metrics[m] for run in of]) for m in metrics), str(len(of))]
        for of in groups.values()
    ]
    heads, names, common = [*metrics, "seeds"], list(groups), ""
    taken = sum(GAP + max(map(len, column)) for column in zip(heads, *cells, strict=True))
    if max(map(len, names), default=0) > width - taken:
        names, common = without_common(names)
    rows = Table(box=None, pad_edge=False, header_style="bold")
    rows.add_column("run", overflow="fold")
    for head in heads:
        rows.add_column(head, justify="right", no_wrap=True)
    for name, row in zip(names, cells, strict=True):
        rows.add_row(Text(name), *row)
    return [Text(f"all runs: {common}", overflow="fold"), rows] if common else [rows]


def spread(values: Sequence[float]) -> str:
    """Return mean and, of several values, ± standard deviation (n - 1)."""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
