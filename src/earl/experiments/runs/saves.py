"""What a run that goes on leaves on disk: its history, snapshots that count on it, a summary."""

from collections.abc import Mapping
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
from earl.storage.files import replace_text
from earl.storage.manifest import newest_step
from earl.storage.snapshot import Snapshot, read_newest, write_snapshot


class Saves:
    """The saves of one run, whose record says which run it is; notes are added to a list."""

    def __init__(self, path: Path, record: Mapping[str, Any], notes: list[str]) -> None:
        self.path = path
        self.record = record
        self.notes = notes

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
        """Write a snapshot of a learner; NotFinite if it holds inf or nan.

        TakenOver if another process has written a snapshot, or to the history.
        """
        root = self.path / "snapshots"
        if (newest := newest_step(root)) > self.saved:
            raise self.history.taken_over(f"it has saved step {newest}")
        with naming_the_step(moment.step):
            check_finite(learner.parts())
        about: dict[str, Any] = {
            "online_correct": moment.online_correct,
            "evaluations": self.history.evaluations,
            "history": self.history.seal(),
            "run": identity(self.record),
            "seconds": round(seconds, 3),
        }
        write_snapshot(root, moment.step, learner.state_dict(), about=about)
        self.saved = moment.step

    def finish(self, seconds: float) -> None:
        """Write the summary of the run, which has ended."""
        seal, history = self.history.seal(), read_history(self.history.path)
        if skipped := history[-1].numbers.get("skipped_steps", 0):
            self.notes.append(f"{skipped} steps led to inf or nan and were undone")
        result = {
            "metrics": measured(history),
            "samples": history[-1].step,
            "costs": history[-1].numbers,
            "seconds": round(seconds, 1),
            "notes": self.notes,
        }
        replace_text(self.path / "summary.json", summary_text(result, self.record, seal))


def load(learner: Learner, snapshot: Snapshot) -> None:
    learner.load_state_dict(snapshot.state)
    try:
        check_finite(learner.parts())
    except NotFinite as error:  # earlier versions saved them
        raise SnapshotError(f"{snapshot.path} is of no use: {error}, and start anew") from error
