"""Records to keep: what tables are made of, small, and without the places of one machine."""

import json
from collections.abc import Sequence
from pathlib import Path, PurePath

from earl.experiments.runs.records import RunRecord
from earl.report.export.tables import check_names
from earl.storage.files import make_directory, replace_text

COPIED = ("history.jsonl", "summary.json")


def export_records(runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Write experiment, history and summary of all runs that have ended; return their folders.

    Snapshots and logs are left out. Seals stay valid: they do not cover where data lay.
    """
    check_names(runs)
    written = []
    for run in runs:
        if not run.finished:
            continue
        target = folder / run.name
        make_directory(target)
        data = {**run.data, "source": PurePath(str(run.data.get("source", ""))).name}
        record = {**run.record, "places": {}, "data": data}
        replace_text(target / "experiment.json", json.dumps(record, indent=2) + "\n")
        for name in COPIED:
            replace_text(target / name, (run.path / name).read_text(encoding="utf-8"))
        written.append(target)
    return written
