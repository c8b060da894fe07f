"""The JSON files of a run, read whole and checked: a damaged one is an error in one line."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from earl.errors import EarlError
from earl.experiments.origins import PLAIN, is_origins
from earl.storage.reading import LARGEST_RECORD, read_bounded

FORMAT = 2  # of experiment.json; format 1 does not say where settings come from

# What every reader of a record relies on: its fields, and their types.
NEEDED = {"experiment": dict, "settings": dict, "environment": dict}
OPTIONAL = {"places": dict, "data": dict, "budget": dict, "boundaries": list, "samples": int}
OPTIONAL |= {"imports": list}
EXPERIMENT = {"method": str, "dataset": str, "stream": str, "seed": int}
EXPERIMENT |= {"settings": dict, "probes": list}
MATCHED = {"stream_sha256": str, "match": str, "to": str}
ENVIRONMENT, RANKS = {"device": str, "threads": int}, {"ranks": int}


def read_record(file: Path) -> dict[str, Any]:
    """Return the record of a run: what is run, every setting, and where it was started."""
    record = read_object(file)
    if record.get("format", FORMAT) not in (1, FORMAT):
        version = json.dumps(record["format"])[:20]
        raise EarlError(f"{file} has format {version}; this earl reads formats 1 to {FORMAT}")
    if not is_record(record):
        raise EarlError(f"{file} is not the record of a run; put the file back, or remove that run")
    return record


def is_record(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has all that is read from it when a run goes on."""
    if "format" not in record or not fits(record, NEEDED, OPTIONAL):
        return False
    if record["format"] != 1 and not is_origins(record.get("origins")):
        return False
    experiment, environment = record["experiment"], record["environment"]
    if not (fits(experiment, EXPERIMENT, MATCHED) and fits(environment, ENVIRONMENT, RANKS)):
        return False
    plain = (experiment["settings"], record["settings"], environment)
    texts = (*experiment["probes"], *record.get("places", {}).values(), *record.get("imports", []))
    return (
        set(experiment) <= {*EXPERIMENT, *MATCHED}
        and all(type(value) in PLAIN for values in plain for value in values.values())
        and all(isinstance(text, str) for text in texts)
        and all(type(end) is int for end in record.get("boundaries", []))
    )


def fits(record: Mapping[str, Any], needed: Mapping[str, type], more: Mapping[str, type]) -> bool:
    """Tell whether a record has the needed fields, and they and those in `more` the right types."""
    kinds = {**needed, **more}
    return set(needed) <= set(record) and all(
        type(value) is kinds[name] for name, value in record.items() if name in kinds
    )


def read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run."""
    try:
        record = json.loads(read_bounded(file, LARGEST_RECORD) or b"")
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise EarlError(f"{file} is not JSON; put the file back, or remove that run") from error
    if not isinstance(record, dict):
        raise EarlError(f"{file} is not the record of a run; put the file back, or remove that run")
    return record


def is_summary(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has all that is read from it when results are shown."""
    metrics, costs = record.get("metrics"), record.get("costs", {})
    notes = record.get("notes", [])
    if not (isinstance(metrics, dict) and isinstance(costs, dict) and isinstance(notes, list)):
        return False
    numbers = [*metrics.values(), *costs.values(), record.get("seconds"), record.get("samples")]
    return all(map(is_number, numbers)) and all(isinstance(note, str) for note in notes)


def is_number(value: object) -> bool:
    """Tell whether a value is a finite number, and not true or false."""
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
