"""Pages whose tables are made of records: what stands between two marks is written anew."""

import functools
import json
import re
from dataclasses import replace
from pathlib import Path

from earl.errors import DataNotFound, InvalidSetting, suggest
from earl.experiments.runs.records import RunRecord, find_runs
from earl.report.results.description import Description, Sheet, of_method
from earl.report.results.few_shot import few_shot
from earl.report.results.paper_cost import paper_cost
from earl.report.results.sheets import markdown, no_records
from earl.report.results.written import written
from earl.storage.files import replace_text
from earl.storage.reading import read_text

LARGEST = 1 << 22  # bytes of a page, or of a file that a table is made of
FROM_FILES = {"few-shot": few_shot, "paper-cost": paper_cost, "written": written}  # no runs
PLACE = re.compile(
    r"(?P<begin><!-- table: (?P<table>\S+)(?: (?P<method>\S+))? -->\n)"
    r".*?(?P<end><!-- end of table -->)",
    re.DOTALL,
)


def stale_pages(description: Description) -> dict[Path, str]:
    """Return the new texts of the pages that do not show what the records say.

    Every described table must have a place in a page, and every place must be described. A place
    may name a method, which the table there has one more row for.
    """
    sheets, stale, placed = description.sheets, {}, set()
    found_runs = functools.cache(records)  # several tables are made of the same

    def filled(place: re.Match[str]) -> str:
        sheet = with_method(sheets[place["table"]], place["method"])
        there = [description.path.parent / folder for folder in sheet.runs]
        if sheet.kind in FROM_FILES:
            table = from_file(sheet, *there)
        else:
            table = markdown(sheet, [run for folder in there for run in found_runs(folder)])
        return f"{place['begin']}{table}{place['end']}"

    for page in description.pages:
        path = description.root / page
        if not path.is_file():
            raise DataNotFound(f"there is no page {path}; {description.path} names it")
        text = read_text(path, LARGEST)
        placed |= {place["table"] for place in PLACE.finditer(text)}
        for name in sorted(placed - sheets.keys()):
            raise InvalidSetting(
                f"{path} has a place for table {name!r}; {suggest(name, tuple(sheets))}"
            )
        if (new := PLACE.sub(filled, text)) != text:
            stale[path] = new
    for name in sheets.keys() - placed:
        raise InvalidSetting(f"no page has a place for table {name!r}: <!-- table: {name} -->")
    return stale


def from_file(sheet: Sheet, file: Path) -> str:
    """Return a table that is made of a file of numbers, not of runs."""
    if not file.is_file():
        return no_records(sheet)
    try:
        return FROM_FILES[sheet.kind](sheet, json.loads(read_text(file, LARGEST)))
    except (json.JSONDecodeError, KeyError) as error:
        raise InvalidSetting(
            f"{file} is not what a table of kind {sheet.kind!r} is made of ({error}); "
            f"`{sheet.command}` makes it anew"
        ) from None


def with_method(sheet: Sheet, method: str | None) -> Sheet:
    """Return a table with a row for a method, if one is named and has none."""
    if method is None or (row := of_method(method)) in sheet.rows:
        return sheet
    return replace(sheet, rows=(*sheet.rows, row))


def records(folder: Path) -> list[RunRecord]:
    """Return the runs of a folder, none if it is not there yet."""
    return find_runs([folder]) if folder.is_dir() else []


def write_pages(description: Description) -> list[Path]:
    """Write the pages that are stale anew; return which."""
    stale = stale_pages(description)
    for path, text in stale.items():
        replace_text(path, text)
    return list(stale)
