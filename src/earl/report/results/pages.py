"""Pages whose tables are made of records: what stands between two marks is written anew."""

import re
from pathlib import Path

from earl.errors import DataNotFound, InvalidSetting, suggest
from earl.experiments.runs.records import RunRecord, find_runs
from earl.report.results.description import Description
from earl.report.results.few_shot import few_shot
from earl.report.results.sheets import markdown
from earl.storage.files import replace_text
from earl.storage.reading import read_text

LARGEST = 1 << 22  # bytes of a page
PLACE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)


def stale_pages(description: Description) -> dict[Path, str]:
    """Return the new texts of the pages that do not show what the records say.

    Every described table must have a place in a page, and every place must be described.
    """
    tables: dict[str, str] = {}
    for name, sheet in description.sheets.items():
        there = description.path.parent / sheet.runs
        curves = sheet.kind == "few-shot"
        tables[name] = few_shot(sheet, there) if curves else markdown(sheet, records(there))
    stale, placed = {}, set()
    for page in description.pages:
        path = description.root / page
        if not path.is_file():
            raise DataNotFound(f"there is no page {path}; {description.path} names it")
        text = read_text(path, LARGEST)
        placed |= {found[2] for found in PLACE.finditer(text)}
        for name in sorted(placed - tables.keys()):
            raise InvalidSetting(
                f"{path} has a place for table {name!r}; {suggest(name, tuple(tables))}"
            )
        filled = PLACE.sub(lambda found: f"{found[1]}{tables[found[2]]}{found[4]}", text)
        if filled != text:
            stale[path] = filled
    for name in tables.keys() - placed:
        raise InvalidSetting(f"no page has a place for table {name!r}: <!-- table: {name} -->")
    return stale


def records(folder: Path) -> list[RunRecord]:
    """Return the runs of a folder, none if it is not there yet."""
    return find_runs([folder]) if folder.is_dir() else []


def write_pages(description: Description) -> list[Path]:
    """Write the pages that are stale anew; return which."""
    stale = stale_pages(description)
    for path, text in stale.items():
        replace_text(path, text)
    return list(stale)
