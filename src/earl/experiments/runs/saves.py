"""What a run that goes on leaves on disk: its history, snapshots that count on it, a summary.

The history is written between two samples. A snapshot is copied there and written by a second
thread while learning goes on; what it counts on is on the disk by then.
"""

from collections.abc import Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from earl.errors import NotFinite, SnapshotError
from earl.evaluation.history import Evaluation, parse_history, read_history, read_lines
from earl.evaluation.loop import Moment, naming_the_step
from earl.experiments.measuring import measured
from earl.experiments.runs.historyfile import HistoryFile
from earl.experiments.runs.seals import beginning, check_snapshot, identity, summary_text
from earl.learning.learner import Learner
from earl.nn.finite import check_finite
from earl.storage.background import Background
from earl.storage.files import replace_text
from earl.storage.manifest import newest_step
from earl.storage.snapshot import Snapshot, read_newest, write_snapshot
from earl.storage.state import State, copied


class Saves:
    """The saves of one run, whose record says which run it is; notes are added to a list."""

    def __init__(self, path: Path, record: Mapping[str, Any], notes: list[str]) -> None:
        self.path = path
        self.record = record
        self.notes = notes
        self.background = Background()

    def go_on(self, learner: Learner) -> tuple[Moment, float]:
        """Bring learner and history to the newest snapshot; return the moment and seconds spent."""
        path = self.path / "history.jsonl"
        snapshot = self._newest()
        self.saved = newest_step(self.path / "snapshots")
        if snapshot is None:
            self.history = HistoryFile(path, b"")
            return Moment(), 0.0
        about: Any = snapshot.about
        begun = beginning(path, read_lines(path), about, self.record)
        parse_history(begun, path)
        load(learner, snapshot)
        self.history = HistoryFile(path, begun)
        return Moment(snapshot.step, online_correct=about["online_correct"]), about["seconds"]

    def load(self, learner: Learner) -> None:
        """Bring a learner to the newest snapshot, if there is one."""
        snapshot = self._newest()
        if snapshot is not None:
            load(learner, snapshot)

    def _newest(self) -> Snapshot | None:
        """Return the newest snapshot, which must be of this run."""
        snapshot = read_newest(self.path / "snapshots")
        if snapshot is not None:
            self.notes += [f"damaged snapshot skipped: {line}" for line in snapshot.skipped]
            note = check_snapshot(snapshot.path, snapshot.about, self.record)
            self.notes += [note] if note else []
        return snapshot

    def append(self, evaluation: Evaluation) -> None:
        """Add an evaluation to the history, before a snapshot counts on it."""
        self.history.append(evaluation)

    def save(self, learner: Learner, moment: Moment, seconds: float) -> None:
        """Copy a learner's state and begin to write it; an error of the last writing comes first.

        NotFinite if it holds inf or nan. TakenOver if another process has written to the history.
        """
        self.background.wait()
        with naming_the_step(moment.step):
            check_finite(learner.parts())
        about: dict[str, Any] = {
            "online_correct": moment.online_correct,
            "evaluations": self.history.evaluations,
            "history": self.history.seal(),
            "run": identity(self.record),
            "seconds": round(seconds, 3),
        }
        state = copied(learner.state_dict())
        self.background.start(partial(self.write, moment.step, state, about))

    def write(self, step: int, state: State, about: Mapping[str, Any]) -> None:
        """Write a snapshot of a state that nobody changes any more.

        TakenOver if another process has written a snapshot, or the history does not begin any more
        with what this one counts on.
        """
        root = self.path / "snapshots"
        if (newest := newest_step(root)) > self.saved:
            raise self.history.taken_over(f"it has saved step {newest}")
        self.history.check_beginning(about["history"])
        write_snapshot(root, step, state, about=about)
        self.saved = step

    def finish(self, seconds: float) -> None:
        """Write the summary of the run, which has ended."""
        seal, history = self.history.seal(), read_history(self.history.path)
        if skipped := history[-1].numbers.get("skipped_steps", 0):
            self.notes.append(f"{skipped} steps led to inf or nan and were undone")
        self.notes += beyond_budget(history[-1], self.record.get("budget", {}))
        result = {
            "metrics": measured(history),
            "samples": history[-1].step,
            "costs": history[-1].numbers,
            "seconds": round(seconds, 1),
            "notes": self.notes,
        }
        replace_text(self.path / "summary.json", summary_text(result, self.record, seal))


def beyond_budget(last: Evaluation, budget: Mapping[str, float]) -> list[str]:
    """Return a note if a run cost more FLOPs than its samples have earned, by over two updates."""
    spent, earned = last.numbers.get("flops", 0), budget.get("flops", inf) * last.step
    if spent - earned <= 2 * spent / (last.numbers.get("updates", 0) or 1):
        return []
    return [f"not matched: it cost {spent / earned:.2f} times the FLOPs of its budget"]


def load(learner: Learner, snapshot: Snapshot) -> None:
    learner.load_state_dict(snapshot.state)
    try:
        check_finite(learner.parts())
    except NotFinite as error:  # earlier versions saved them
        raise SnapshotError(f"{snapshot.path} is of no use: {error}, and start anew") from error
