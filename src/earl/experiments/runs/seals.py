"""Seals: how the files of a run show that they are what was written, and belong together.

experiment.json    says that the run has seals; those of earlier versions have none
a snapshot         tells which run it is of, and the SHA-256 of the history up to it
summary.json       the SHA-256 of which run it is of, of the history and, last, of itself

They find damage and mix-ups; they are no signatures.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from earl.errors import DamagedRun, SnapshotError
from earl.evaluation.history import REMEDY, Evaluation, parse_history, read_lines, whole_lines
from earl.experiments.runs.files import is_summary
from earl.storage.manifest import Json, read_about
from earl.storage.reading import LARGEST_RECORD, read_bounded

SEALED = "sealed"  # in experiment.json
PLACES = ("source", "skipped")  # facts about data that may differ when a run goes on
SEALS = ("run", "history")  # the seals of a summary
ABOUT = {"evaluations": (int,), "online_correct": (int,), "seconds": (int, float)}
UNSEALED = "has no seals, as in earlier versions: damage to it would go unseen"


def seal(data: bytes) -> dict[str, Json]:
    """Return what tells these bytes from all others."""
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def identity(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what identifies the run of this record: experiment, settings and data."""
    fields = {"stream_sha256": "", "match": "", "to": "", **record["experiment"]}
    fields.pop("settings", None)  # all of them are in the record
    if fields["stream_sha256"]:
        fields.pop("stream", None)  # the same file may lie elsewhere by now
    data = {name: value for name, value in record.get("data", {}).items() if name not in PLACES}
    data |= {name: record[name] for name in ("samples", "budget") if name in record}
    return {"experiment": fields, "settings": dict(record["settings"]), "data": data}


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return in what two identities differ, or nothing; data are compared as far as recorded."""
    for group, one in here.items():
        other = there.get(group, {})
        names = one.keys() & other.keys() if group == "data" else one.keys() | other.keys()
        for name in sorted(names):
            if one.get(name) != other.get(name):
                found = (shorter(values.get(name)) for values in (other, one))
                return f"{name} = {' there, '.join(found)} here"
    return ""


def shorter(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def check_snapshot(path: Path, about: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """Raise SnapshotError if a snapshot is of another run; return a note if that is unknown."""
    if not all(type(about.get(name)) in kinds for name, kinds in ABOUT.items()):
        raise SnapshotError(f"{path} does not tell where its run stood; start anew elsewhere")
    of = about.get("run")
    if of is None and not record.get(SEALED):
        return f"{path.name} {UNSEALED}"
    told = isinstance(of, dict) and all(isinstance(group, dict) for group in of.values())
    found = difference(about["run"], identity(record)) if told else "it does not say which"
    if found:
        raise SnapshotError(
            f"{path} is a snapshot of another run ({found}); put the right one back, or start anew "
            "in another directory"
        )
    return ""


def beginning(
    path: Path, data: bytes, about: Mapping[str, Any], record: Mapping[str, Any]
) -> bytes:
    """Return the part of a history that a snapshot counts on; DamagedRun if it is not there."""
    lines, count, kept = whole_lines(data), about["evaluations"], about.get("history")
    begun = b"".join(lines[:count])
    known = kept is not None or record.get(SEALED)
    if len(lines) < count or (known and kept != seal(begun)):
        raise DamagedRun(
            f"{path} holds {len(lines)} evaluations, and they are not the {count} that the newest "
            f"snapshot counts on; {REMEDY}"
        )
    return begun


def summary_text(
    result: Mapping[str, Any], record: Mapping[str, Any], history: Mapping[str, Json]
) -> str:
    """Return the text of summary.json for a run that has ended with a history of this seal."""
    seals = {"run": digest_of(record), "history": history}
    start = json.dumps({**result, "seals": seals}, indent=2, allow_nan=False)[:-2]
    return start + own_seal(start)


def own_seal(start: str) -> str:
    return f',\n  "sha256": "{hashlib.sha256(start.encode()).hexdigest()}"\n}}\n'


def digest_of(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity(record), sort_keys=True).encode()).hexdigest()


def read_summary(path: Path, record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the summary of the run with this record, None if there is none yet.

    DamagedRun says that it is not what was written, or that it is of another run.
    """
    if (data := read_bounded(path, LARGEST_RECORD)) is None:
        return None
    try:
        text = data.decode()
        summary = json.loads(text)
        seals = summary.get("seals", {})
        well_formed = is_summary(summary) and {*summary.get("seals", SEALS)} == {*SEALS}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedRun(f"{path} is not the summary of a run; {REMEDY}") from error
    start = text[: -len(own_seal(""))]
    intact = text == start + own_seal(start) or not (record.get(SEALED) or seals)
    if not well_formed or not intact:
        raise DamagedRun(f"{path} is not what was written; {REMEDY}")
    if seals and seals["run"] != digest_of(record):
        raise DamagedRun(f"{path} is of another run than the experiment.json beside it; {REMEDY}")
    return dict(summary)


def read_checked(
    folder: Path, record: Mapping[str, Any], summary: Mapping[str, Any] | None
) -> list[Evaluation]:
    """Return the history of a run; DamagedRun or SnapshotError if its seals do not fit.

    While the run has not ended, the newest snapshot tells what its beginning must be.
    """
    newest = None if summary else read_about(folder / "snapshots")  # first: the history may grow
    path = folder / "history.jsonl"
    data = read_lines(path)
    history = parse_history(data, path)  # which may name the damaged line
    if summary and "seals" in summary and summary["seals"]["history"] != seal(data):
        raise DamagedRun(f"{path} is not what it was when the run ended; {REMEDY}")
    if newest is not None:
        check_snapshot(*newest, record)
        beginning(path, data, newest[1], record)
    return history
