"""TensorBoard as a reader of histories: it shows nothing that history.jsonl does not say."""

from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from earl.errors import EarlError
from earl.evaluation.history import Evaluation
from earl.experiments.runs.records import RunRecord
from earl.report.export.tables import Scalars, check_names

if TYPE_CHECKING:  # importing these would import torch
    from earl.evaluation.loop import Moment
    from earl.experiments.runs.directory import RunDirectory

SUFFIX = ".earl"  # marks the event files that are ours to replace


class TensorBoardLog:
    """The scalars of one run in a folder for TensorBoard.

    It takes the place of an older one in the same folder, so that nothing is shown twice. Histories
    count samples and keep no clock: every event has its step, and the time 0.
    """

    def __init__(self, folder: Path, history: Iterable[Evaluation] = ()) -> None:
        check_tensorboard()
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        for old in folder.glob(f"events.out.tfevents.*{SUFFIX}"):
            old.unlink()
        self._writer = EventFileWriter(str(folder), filename_suffix=SUFFIX)
        self._scalars = Scalars()
        for evaluation in history:
            self.add(evaluation)

    def add(self, evaluation: Evaluation) -> None:
        """Add one evaluation to the log."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        for name, value in self._scalars(evaluation).items():
            summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
            self._writer.add_event(Event(step=evaluation.step, wall_time=0.0, summary=summary))

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def check_tensorboard() -> None:
    """Raise unless TensorBoard's writer is there."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise EarlError(
            'TensorBoard is not installed; try: pip install "earl-learn[track]", or use '
            "`earl export csv`"
        ) from None


def export_tensorboard(runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Write one log folder per run, named like the run; return those folders."""
    check_names(runs)
    paths = [folder / run.name for run in runs]
    for path, run in zip(paths, runs, strict=True):
        TensorBoardLog(path, run.history).close()
    return paths


def mirror(run: "RunDirectory", moments: "Generator[Moment]", folder: Path) -> "Generator[Moment]":
    """Yield the moments of a run, and write its evaluations to a log as they come.

    The log begins with the whole history up to the point from which the run goes on.
    """
    check_tensorboard()
    log = None
    try:
        for moment in moments:
            if log is None:
                log = TensorBoardLog(folder, run.history)
            elif moment.evaluation:
                log.add(moment.evaluation)
            if moment.evaluation:
                log.flush()
            yield moment
        log = log or TensorBoardLog(folder, run.history)  # the run had ended before
    finally:
        moments.close()
        if log is not None:
            log.close()
