"""Showing a run in TensorBoard while it goes on: where its log goes, and how it is followed."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from earl.evaluation.loop import Moment
    from earl.experiments.runs.directory import RunDirectory


def tensorboard_folder(run: "RunDirectory", wanted: bool, folder: Path | None) -> Path | None:
    """Return where the log of a run goes: nowhere, to its own folder, or below another one."""
    if folder is not None:
        return folder / run.experiment.path()
    return run.path if wanted else None


def mirrored(
    run: "RunDirectory", moments: "Generator[Moment]", folder: Path | None
) -> "Generator[Moment]":
    """Return the moments of a run; if there is a folder, TensorBoard can follow them there."""
    if folder is None:
        return moments
    from earl.report.export.tensorboard import mirror

    return mirror(run, moments, folder)
