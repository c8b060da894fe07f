"""B9: what a service holds does not grow with what it was taught."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from earl.crashtest.harness import Found, Trial
from earl.crashtest.sabotage import put
from earl.crashtest.serving import JSON, Server, parameters, png, warm
from earl.crashtest.small import CLASSES, ready, stream
from earl.estimator import EARLClassifier
from earl.service import learner
from earl.service.begun import begun_with
from earl.service.bounds import bounds_of
from earl.service.images import Image, ImageLimits
from earl.service.journal import NAME
from earl.service.limits import Limits
from earl.service.operations import Operation, Outcome, apply

TOGETHER = 250  # samples of one request
READINGS = 100  # of the sizes, in all
LIMITS = Limits(
    journal=8 << 20,
    retention=2000,
    snapshot_seconds=1.0,
    # As small as these requests are, so that the bound on memory is near:
    images=ImageLimits(most_bytes=1 << 20, most_pixels=1 << 16),
    in_flight=4 << 20,
    batch_body=1 << 20,
    connections=64,
    listeners=4,
)
MOST_MB, MOST_LOG = 10.0, 64 << 20  # that memory may grow; bytes of SQLite's log
LOOKS = 3  # at open files, of which the fewest count
TRIES = 600  # to post samples for which there is no room yet
SETTLING = 600.0  # seconds until all that waits is learned


@dataclass(frozen=True)
class Sizes:
    """What a service holds at one moment."""

    rss_mb: float
    peak_mb: float  # of the same, since the service has started
    files: int
    journal: int
    log: int
    snapshot: int

    @classmethod
    def of(cls, pid: int, folder: Path) -> "Sizes":
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        facts = dict(line.split(":", 1) for line in status.splitlines())
        return cls(
            int(facts["VmRSS"].split()[0]) / 1024,
            int(facts["VmHWM"].split()[0]) / 1024,
            min(open_files(pid) for _ in range(LOOKS)),
            size(folder / NAME),
            size(folder / f"{NAME}-wal"),
            max((size_below(path) for path in folder.glob("snap-*")), default=0),
        )


def open_files(pid: int) -> int:
    """Return how many files and connections a process has open, after a moment."""
    time.sleep(0.02)  # a request that has just been answered is closed soon
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def size(path: Path) -> int:
    """Return the bytes of a file; 0 if it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def size_below(folder: Path) -> int:
    try:
        return sum(size(path) for path in folder.iterdir())
    except FileNotFoundError:
        return 0


def growth(trial: Trial) -> Found:
    """Have samples admitted, decoded, kept and trimmed; the sabotage keeps more than is allowed."""
    return grown(trial, counted)


def growth_tiny(trial: Trial) -> Found:
    """Have samples learned by a tiny model; the sabotage keeps more than is allowed."""
    return grown(trial, apply)


def counted(clf: EARLClassifier, operation: Operation, image: Image | None) -> Outcome:
    """Learn nothing."""
    return Outcome(operation.label, True)


def grown(trial: Trial, act: Callable[..., Outcome]) -> Found:
    """Teach a service so many samples, and look at what it holds meanwhile."""
    ready()
    warm()
    model = parameters() | {"max_classes": CLASSES}
    bound = bounds_of(begun_with(model), LIMITS).most_memory
    kept: list[bytes] = []
    each = bound // trial.count

    def leaking(clf: EARLClassifier, operation: Operation, image: Image | None) -> Outcome:
        kept.append(b"." * each)
        return act(clf, operation, image)

    chosen = leaking if trial.sabotage else act
    sabotage = partial(put, learner, "apply", chosen)
    server = Server(trial.place / "state", LIMITS, sabotage, model)
    assert server.start().life is not None
    sizes = teach(server, trial.count)
    status = server.settle(SETTLING)
    found = trial.found(samples=status["acknowledged"])
    found.expect(status["acknowledged"] == trial.count, f"{status['acknowledged']} were taken")
    found.expect(server.stop() == 0, "it did not end in peace")
    check(sizes, bound / 2**20, found)
    server.start()
    found.expect(server.settle(SETTLING)["applied"] == trial.count, "it does not go on from there")
    found.expect(server.stop() == 0, "it did not end in peace")
    return found


def teach(server: Server, total: int) -> list[Sizes]:
    """Post so many samples in batches; return what the service held after some of them."""
    assert server.life is not None
    samples, done = stream(TOGETHER), 0
    sizes: list[Sizes] = []
    images = [base64.b64encode(png(image)).decode() for image in samples.images]
    lessons = [{"image": i, "label": c} for i, c in zip(images, samples.labels, strict=True)]
    while done < total:
        few = lessons[: min(TOGETHER, total - done)]
        post(server, json.dumps({"samples": few}).encode(), f"batch-{done}")
        done += len(few)
        if done == len(few):
            begin(server)
        follow(server)
        if len(sizes) * total < done * READINGS:
            sizes.append(Sizes.of(server.life.pid, server.folder))
    return sizes


def begin(server: Server) -> None:
    """Wait until the first samples are learned and in a snapshot: until then all grows."""
    server.settle(SETTLING)
    for _ in range(TRIES):
        if list(server.folder.glob("snap-*")):
            return
        time.sleep(0.1)
    raise AssertionError("there is no snapshot")


def follow(server: Server) -> None:
    """Wait until little waits to be learned, so that what is read is what learning left."""
    for _ in range(TRIES):
        if server.status()["waiting"] <= TOGETHER:
            return
        time.sleep(0.1)
    raise AssertionError("it does not learn any more")


def post(server: Server, body: bytes, key: str) -> None:
    """Post a batch, and again while too many samples wait."""
    for _ in range(TRIES):
        headers = JSON | {"Idempotency-Key": key}
        status, answer = server.ask("POST", "/learn/batch", body=body, headers=headers)
        if status == 202:
            return
        if status != 429:
            raise AssertionError(f"{key}: {status} {str(answer)[:100]}")
        time.sleep(0.1)
    raise AssertionError(f"{key}: {answer}")


def check(sizes: list[Sizes], bound_mb: float, found: Found) -> None:
    """Compare the first fifth with the last one, open files by halves, and all with bounds."""
    peak = max(one.peak_mb for one in sizes)
    found.figures |= {"bound_mb": round(bound_mb), "peak_mb": round(peak)}
    found.expect(peak <= bound_mb, f"memory came to {peak:.0f} MB, of {bound_mb:.0f} computed")
    fifth = max(1, len(sizes) // 5)
    first, last = sizes[:fifth], sizes[-fifth:]

    def middle(of: Callable[[Sizes], float]) -> tuple[float, float]:
        return median(map(of, first)), median(map(of, last))

    rss = middle(lambda one: one.rss_mb)
    halves = sizes[: max(1, len(sizes) // 2)], sizes[len(sizes) // 2 :]
    files = [min(one.files for one in half) for half in halves]  # but for passing ones
    snapshot = middle(lambda one: one.snapshot)
    journal, log = max(one.journal for one in sizes), max(one.log for one in sizes)
    found.figures |= {"rss_mb": round(rss[0]), "grown_mb": round(rss[1] - rss[0], 1)}
    found.figures |= {"journal_mb": round(journal / 2**20, 1), "log_mb": round(log / 2**20, 1)}
    found.figures |= {"files": files[1], "snapshot": round(snapshot[1])}
    found.expect(rss[1] - rss[0] < MOST_MB, f"memory grew by {rss[1] - rss[0]:.1f} MB")
    found.expect(journal <= LIMITS.journal, f"the journal has {journal} bytes")
    found.expect(log <= MOST_LOG, f"its log has {log} bytes")
    found.expect(files[1] <= files[0], f"open files: {files[0]} and then {files[1]}")
    same = snapshot[0] > 0 and abs(snapshot[1] / snapshot[0] - 1) <= 0.01
    found.expect(same, f"snapshots of {snapshot[0]} and then {snapshot[1]} bytes")
